"""A service for its own machine: reading is open, whatever changes something needs a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from builders.access import Doorman, guarded
from builders.service_program import serving

from benchmarks import local_service
from service.api.routes import ROUTES
from service.auth.permissions import SAFE, Permission
from service.http.strict_route import declared
from service.settings import Access

API = "/api/v1"
JOBS = f"{API}/jobs"
STRANGERS = {"nobody": {}, "a bad token": {"Authorization": "Bearer tl_admin_0"}}
NAMES = {"number": "1", "digest": "0" * 64}


def path_of(template: str) -> str:
    """A path that fits a route: about things that are not there."""
    names = {part.split("}")[0] for part in template.split("{")[1:]}
    return template.format(**{name: NAMES.get(name, "none") for name in names})


def calls(*wanted: Permission) -> list[tuple[str, str]]:
    """Method and path of every route that asks for one of these."""
    found = [route.split(" ") for route, asked in declared(ROUTES).items() if asked in wanted]
    return [(method, path_of(path)) for method, path in found]


def sent(method: str, path: str) -> dict[str, Any]:
    """A body of the kind that the call takes: nothing else about the request is wrong."""
    if path.endswith(("/trace", "/log")):
        return {"content": b"", "headers": {"Content-Type": "application/gzip"}}
    return {"json": {}} if method in {"POST", "PUT", "PATCH"} else {}


CHANGING = calls(Permission.SUBMIT, Permission.TRIAGE, Permission.WORK, Permission.ADMIN)


@pytest.fixture
def doorman(sqlite_url: str, tmp_path: Path) -> Iterator[Doorman]:
    unlimited = {"failures_per_min": 0.0, "requests_per_s": 0.0}
    with guarded(sqlite_url, tmp_path, access=Access.AUTO, **unlimited) as found:
        yield found


def test_reading_never_changes_anything() -> None:
    """What asks to read alone is open to the machine: it must be safe by its method."""
    assert {method for method, _ in calls(Permission.READ)} <= SAFE


@pytest.mark.parametrize("who", STRANGERS)
def test_a_local_caller_without_a_token_is_refused_every_change(doorman: Doorman, who: str) -> None:
    assert len(CHANGING) > 20
    for method, path in CHANGING:
        what = sent(method, path)
        headers = what.pop("headers", {}) | STRANGERS[who]
        answer = doorman.ask(method, path, headers=headers, **what)
        assert answer.status_code == 401, f"{method} {path}"
    assert doorman.ask("GET", f"{API}/audit", doorman.local()).json()["items"] == []


def test_a_local_caller_without_a_token_reads_everything(doorman: Doorman) -> None:
    for method, path in calls(Permission.READ):
        answer = doorman.ask(method, path)
        assert answer.status_code in {200, 404, 422}, f"{method} {path}"


def test_the_own_token_of_a_machine_may_do_everything_and_closes_nothing(
    doorman: Doorman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.auth.authenticate._LOOK_S", 0.0)
    owner = doorman.local()
    body = {"suite": "smoke", "revision": "r1"}
    assert doorman.ask("POST", f"{API}/submissions", owner, json=body).status_code == 201
    assert doorman.ask("GET", f"{API}/tokens", owner).status_code == 200
    assert doorman.ask("GET", JOBS).status_code == 200


def test_nobody_else_takes_the_name_of_the_machines_own_token(doorman: Doorman) -> None:
    """Reading would stay open after somebody was made an administrator."""
    owner, body = doorman.local(), {"kind": "admin", "name": "local"}
    answer = doorman.ask("POST", f"{API}/tokens", owner, json=body)
    assert (answer.status_code, "kept for" in answer.json()["detail"]) == (422, True)
    body["kind"] = "submit"
    assert doorman.ask("POST", f"{API}/tokens", owner, json=body).status_code == 201


def test_a_bad_token_is_told_where_nobody_would_have_asked_for_one(doorman: Doorman) -> None:
    answer = doorman.ask("GET", JOBS, doorman.revoked())
    assert (answer.status_code, "revoked" in answer.json()["detail"]) == (401, True)


def test_a_browser_whose_session_is_over_goes_on_reading(sqlite_url: str, tmp_path: Path) -> None:
    with guarded(sqlite_url, tmp_path, access=Access.AUTO, failures_per_min=2) as doorman:
        doorman.client.cookies.set("throughline", "00" * 32)
        for _ in range(5):  # a page asks again every few seconds: none of it is a failure
            page = doorman.ask("GET", "/jobs")
            assert page.status_code == 200
        assert 'href="/sign-in?to=/jobs"' in page.text
        assert doorman.ask("POST", JOBS, json={}).status_code == 401


def test_where_reading_is_open_the_pages_offer_to_sign_in(doorman: Doorman) -> None:
    assert "Sign in</a>" in doorman.ask("GET", "/jobs?state=queued").text
    with_token = doorman.ask("GET", "/jobs", doorman.local())
    assert "Sign in</a>" not in with_token.text


@pytest.fixture
def address(sqlite_url: str, tmp_path: Path) -> Iterator[str]:
    """A real service process on the loopback, as it is without a setting about access."""
    with serving(sqlite_url, STATE_DIR=str(tmp_path), ACCESS="auto") as (found, process):
        yield found
        assert process.poll() is None


def test_no_other_local_user_makes_himself_an_administrator_or_locks_the_owner_out(
    address: str, tmp_path: Path
) -> None:
    """The attack: without the file of the owner's token everything that changes is refused."""
    for method, path in CHANGING:
        answer = httpx2.request(method, f"{address}{path}", **sent(method, path))
        assert answer.status_code in {401, 429}, f"{method} {path}"
    wanted = {"kind": "admin", "name": "mine"}
    assert httpx2.post(f"{address}{API}/tokens", json=wanted).status_code in {401, 429}
    owner = {"Authorization": f"Bearer {local_service.token_for(tmp_path, address)}"}
    order = {"suite": "smoke", "revision": "r1"}
    submitted = httpx2.post(f"{address}{API}/submissions", json=order, headers=owner)
    assert submitted.status_code == 201
    tokens = httpx2.get(f"{address}{API}/tokens", headers=owner).json()["items"]
    assert [(one["kind"], one["name"]) for one in tokens] == [("admin", "local")]
    assert httpx2.get(f"{address}{JOBS}").status_code == 200


def test_the_token_is_shown_to_a_living_service_of_the_same_folder_alone(
    sqlite_url: str, tmp_path: Path
) -> None:
    with serving(sqlite_url, STATE_DIR=str(tmp_path), ACCESS="auto") as (address, process):
        assert local_service.token_for(tmp_path, address).startswith("tl_admin_")
        assert list(local_service.urls(tmp_path)) == [address]
        assert local_service.token_for(tmp_path, "http://127.0.0.1:9") == ""
        assert local_service.token_for(tmp_path, address.replace("127.0.0.1", "localhost")) == ""
        process.kill()
        process.wait()
        assert list(tmp_path.glob("serving-*.json"))
        assert local_service.token_for(tmp_path, address) == ""


def test_the_service_says_where_its_token_is_and_keeps_it_from_others(
    sqlite_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    lines: list[str] = []
    with serving(sqlite_url, said=lines, STATE_DIR=str(folder), ACCESS="auto"):
        path = local_service.token_file(folder)
        assert any(str(path) in line for line in lines)
        assert path.stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700
        assert path.read_text().strip() not in "".join(lines)
        kept = path.read_text()
    with serving(sqlite_url, STATE_DIR=str(folder), ACCESS="auto"):
        assert path.read_text() == kept


def test_a_service_that_asks_for_no_tokens_makes_none_and_says_so(
    sqlite_url: str, tmp_path: Path
) -> None:
    lines: list[str] = []
    with serving(sqlite_url, said=lines, STATE_DIR=str(tmp_path), ACCESS="open") as (address, _):
        assert httpx2.post(f"{address}{JOBS}", json={}).status_code == 422
        assert any("may do everything" in line for line in lines)
        assert not local_service.token_file(tmp_path).exists()
