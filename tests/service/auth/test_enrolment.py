"""A worker gets its token with a code: once, soon, and under the name that was meant."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builders.access import Clock, Doorman, guarded
from sqlalchemy import update

from service.auth import token_format
from service.database.session import now_of
from service.models import EnrolmentRow

pytestmark = pytest.mark.both_databases

CODES = "/api/v1/enrolments"


@pytest.fixture
def doorman(database_url: str, tmp_path: Path) -> Iterator[Doorman]:
    with guarded(database_url, tmp_path / "state") as found:
        yield found


@pytest.fixture
def admin(doorman: Doorman) -> str:
    return doorman.token("admin")


def code(doorman: Doorman, admin: str, **wanted: Any) -> str:
    answer = doorman.ask("POST", CODES, admin, json=wanted)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["code"])


def redeem(doorman: Doorman, shown: str, worker: str = "gpu-1") -> Any:
    return doorman.ask("POST", f"{CODES}/redeem", json={"code": shown, "worker": worker})


def test_a_code_becomes_the_token_of_the_worker_that_shows_it(doorman: Doorman, admin: str) -> None:
    made = redeem(doorman, code(doorman, admin)).json()
    assert (made["kind"], made["name"], made["state"]) == ("worker", "gpu-1", "live")
    introduced = doorman.ask("PUT", "/api/v1/workers/gpu-1", made["token"], json={"name": "gpu-1"})
    assert introduced.status_code == 200
    log = doorman.ask("GET", "/api/v1/audit", admin).json()["items"]
    assert [(line["actor"], line["action"]) for line in log] == [
        ("worker gpu-1", f"POST {CODES}/redeem"),
        ("admin somebody", f"POST {CODES}"),
    ]


def test_a_code_is_good_once_whoever_asks_at_the_same_time(doorman: Doorman, admin: str) -> None:
    shown = code(doorman, admin)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: redeem(doorman, shown, f"w{n}"), range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 401, 401, 401]
    tokens = doorman.ask("GET", "/api/v1/tokens", admin).json()["items"]
    assert len([one for one in tokens if one["kind"] == "worker"]) == 1


def test_two_codes_for_anybody_give_one_name_once(doorman: Doorman, admin: str) -> None:
    """Else two nodes would act as the same worker."""
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        shown = [code(doorman, admin) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(redeem, doorman, one, name) for one in shown]
        assert sorted(answer.result().status_code for answer in answers) == [201, 403, 403, 403]


def test_a_code_for_one_worker_is_no_others_and_stays_good(doorman: Doorman, admin: str) -> None:
    shown = code(doorman, admin, worker="gpu-1")
    refused = redeem(doorman, shown, "gpu-2")
    assert (refused.status_code, "gpu-1" in refused.json()["detail"]) == (403, True)
    assert redeem(doorman, shown, "gpu-1").status_code == 201


def test_a_code_for_anybody_takes_no_name_that_a_worker_has(doorman: Doorman, admin: str) -> None:
    """Whoever found the code would act as that worker."""
    first = redeem(doorman, code(doorman, admin), "gpu-1").json()
    shown = code(doorman, admin)
    refused = redeem(doorman, shown, "gpu-1")
    assert (refused.status_code, "has a token" in refused.json()["detail"]) == (403, True)
    assert redeem(doorman, shown, "gpu-2").status_code == 201, "it stays good"
    assert redeem(doorman, code(doorman, admin, worker="gpu-1"), "gpu-1").status_code == 201
    doorman.ask("POST", f"/api/v1/tokens/{first['id']}/revoke", admin)
    last = redeem(doorman, code(doorman, admin), "gpu-1")
    assert last.status_code == 403, "the second token is still good"


def test_a_code_ends_with_the_token_that_made_it(doorman: Doorman, admin: str) -> None:
    leaver = doorman.make("admin", "leaver")
    shown = code(doorman, leaver.token)
    doorman.ask("POST", f"/api/v1/tokens/{leaver.id}/revoke", admin)
    assert redeem(doorman, shown).status_code == 401


def test_an_old_a_mistyped_and_a_foreign_code_are_refused(doorman: Doorman, admin: str) -> None:
    old = code(doorman, admin)
    with doorman.database.writing() as session:
        past = now_of(session) - timedelta(seconds=1)
        session.execute(update(EnrolmentRow).values(expires_at=past))
    foreign = token_format.new(token_format.ENROLMENT).text
    for bad in (old, foreign, old[:-1], admin, ""):
        answer = redeem(doorman, bad)
        assert answer.status_code == 401
        assert "throughline token enrolment" in answer.json()["detail"]


def test_codes_are_tried_only_so_often(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.auth.authenticate.time", Clock())
    with guarded(sqlite_url, tmp_path, failures_per_min=2) as doorman:
        good = code(doorman, doorman.token("admin"))
        answers = [redeem(doorman, token_format.new(token_format.ENROLMENT).text) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [401, 401, 429, 429]
        assert answers[-1].headers["Retry-After"] == "30"
        assert redeem(doorman, good).status_code == 429, "no code is looked at meanwhile"
