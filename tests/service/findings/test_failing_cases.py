"""Cases that gave results and fail are one finding of their own kind, until they are well again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders.service_hand import FACTS, Hand
from fastapi.testclient import TestClient
from sqlalchemy import select

from benchmarks.contracts import Status
from service.database.session import Database, now_of
from service.findings import pipeline
from service.findings.failing_cases import Breakage
from service.findings.nights import facts
from service.maintenance.verify.invariants import verify
from service.models import EventKind, OutboxEvent
from service.schemas.findings import Cause, FindingKind
from service.wording import night as words

API = "/api/v1"
NOW = datetime.now(UTC).replace(microsecond=0)
OK, WRONG, OOM = Status.OK, Status.PARITY_FAIL, Status.OOM
BF16, COMPILED, PLAIN = {"precision": "bf16"}, {"compile": "default", "precision": "bf16"}, {}


class Nights:
    """Measures cases at the revision of a night, on any worker, and has the service look."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.database: Database = client.app.state.database  # type: ignore[attr-defined]
        self._hands: dict[str, Hand] = {}
        self._minutes = 0

    def run(
        self,
        number: int,
        status: Status,
        *cases: Mapping[str, str],
        worker: str = "w1",
        facts: Mapping[str, str] = FACTS,
    ) -> list[str]:
        """Measure; the ids of the results."""
        if worker not in self._hands:
            self._hands[worker] = Hand(self.client, name=worker)
            self._hands[worker].introduce()
        return [self._measure(number, status, dict(axes), worker, facts) for axes in cases]

    def _measure(
        self, number: int, status: Status, axes: dict[str, str], worker: str, facts: Any
    ) -> str:
        made = NOW - timedelta(days=20 - number)
        self._minutes += 1
        body = {
            "case": {"workload": "nanogpt", "axes": axes},
            "revision": f"r{number}",
            "revision_at": made.isoformat(),
            "revision_author": "Ada",
            "revision_title": "Fuse the norm",
            "requires": {"worker": worker},
        }
        answer = self.client.post(f"{API}/submissions", json=body)
        assert answer.status_code == 201, answer.text
        at, hand = made + timedelta(minutes=self._minutes), self._hands[worker]
        return hand.measure(status=status, measured_at=at, facts=facts, reason=f"{status} at 3")

    def look(self) -> list[Mapping[str, Any]]:
        """What the service opened of this kind."""
        opened = pipeline.look(self.database, daily=0).opened
        found = [self.finding(name) for name in opened]
        return [one for one in found if one["summary"]["kind"] == FindingKind.FAILURE]

    def finding(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.client.get(f"{API}/findings/{name}").json()
        return found

    def act(self, name: str, action: str) -> None:
        body = {"action": action, "actor": "ada"}
        assert self.client.post(f"{API}/findings/{name}/actions", json=body).is_success


@pytest.fixture
def nights(client: TestClient) -> Nights:
    return Nights(client)


def broken(nights: Nights) -> Mapping[str, Any]:
    """Three cases are well at r13; the two of bf16 fail at r14 and r15."""
    nights.run(13, OK, PLAIN, BF16, COMPILED)
    nights.run(14, OK, PLAIN)
    nights.run(14, WRONG, BF16, COMPILED)
    assert nights.look() == []
    nights.run(15, OK, PLAIN)
    nights.run(15, WRONG, BF16, COMPILED)
    (found,) = nights.look()
    return found


@pytest.mark.both_databases(slow="postgresql")
def test_cases_that_begin_to_fail_together_are_one_finding_until_they_are_well(
    nights: Nights,
) -> None:
    found = broken(nights)
    told = found["summary"]
    assert told["headline"] == "bf16 nanogpt fails parity with eager fp32 since r14"
    assert told["sentence"] == (
        'bf16 nanogpt fails parity with eager fp32 since r14 (Ada, "Fuse the norm"): all 2 '
        "cases, none of the other 1. Seen on w1; code, not machine: environment unchanged (4 "
        "facts)."
    )
    assert (told["last_good"], told["first_bad"], told["cause"]) == ("r13", "r14", Cause.CODE)
    assert [(one["results"], one["fails"], one["workers"]) for one in found["failed"]] == [
        (2, True, ["w1"])
    ] * 2
    (first, _) = found["failed"]
    assert (first["first_revision"], first["newest_revision"]) == ("r14", "r15")
    nights.run(16, WRONG, BF16, COMPILED)
    assert nights.look() == []
    nights.run(17, OK, BF16)
    nights.run(17, WRONG, COMPILED)
    assert nights.look() == []
    part = nights.finding(told["id"])
    assert [one["fails"] for one in part["failed"]] == [True, False]
    assert part["summary"]["state"] == "open"
    assert "1 of 3 cases" in part["summary"]["sentence"]
    nights.run(18, OK, BF16, COMPILED)
    assert nights.look() == []
    over = nights.finding(told["id"])
    assert over["summary"]["state"] == "resolved"
    assert over["events"][-1]["detail"] == "gives results again at r18"
    with nights.database.reading() as session:
        about = select(OutboxEvent.kind, OutboxEvent.workload, OutboxEvent.outcome).where(
            OutboxEvent.subject == told["id"]
        )
        events = session.execute(about.order_by(OutboxEvent.id)).all()
    assert [tuple(one) for one in events] == [
        (EventKind.FINDING_OPENED, "nanogpt", "failure"),
        (EventKind.FINDING_RECOVERED, "nanogpt", "failure"),
    ]
    assert told["id"] not in str(verify(nights.database))


def test_pages_show_it_with_its_cases_and_lead_to_it(nights: Nights, client: TestClient) -> None:
    told = broken(nights)["summary"]
    link = f'href="/findings/{told["id"]}"'
    series = nights.finding(told["id"])["failed"][0]["series"]["id"]
    for path in ("/", "/findings", "/cases", f"/series/{series}", "/matrix", "/revisions/r14"):
        assert link in client.get(path).text, path
    page = client.get(f"/findings/{told['id']}").text
    for failed in nights.finding(told["id"])["failed"]:
        for result in (failed["first_result"], failed["newest_result"]):
            assert f'href="/runs/{result}"' in page
            assert link in client.get(f"/runs/{result}").text
    assert "parity_fail at 3" in page


def test_the_report_of_the_night_names_it(nights: Nights) -> None:
    broken(nights)
    with nights.database.reading() as session:
        now = now_of(session)
        report = facts.gather(session, now.date(), now)
    said = words.text(words.account(report))
    assert "Failure: bf16 nanogpt fails parity with eager fp32 since r14 (open)" in said


def test_a_case_that_fails_later_joins_if_one_revision_can_have_broken_both(
    nights: Nights,
) -> None:
    nights.run(12, OK, PLAIN, BF16, COMPILED)
    nights.run(14, WRONG, BF16)
    nights.run(14, WRONG, BF16, worker="w2")
    (found,) = nights.look()
    nights.run(15, WRONG, COMPILED)
    nights.run(15, OK, PLAIN)
    nights.run(16, WRONG, PLAIN, COMPILED)
    assert nights.look() == []
    nights.run(17, WRONG, PLAIN)
    (other,) = nights.look()
    assert [one["series"]["case"]["axes"] for one in other["failed"]] == [PLAIN]
    assert (other["summary"]["last_good"], other["summary"]["first_bad"]) == ("r15", "r16")
    joined = nights.finding(found["summary"]["id"])
    assert [one["series"]["case"]["axes"] for one in joined["failed"]] == [COMPILED, BF16]
    assert [one["action"] for one in joined["events"]] == ["open", "join"]
    assert joined["summary"]["first_bad"] == "r14"


@pytest.mark.parametrize(
    "why",
    ["never_measured", "once", "in_two_ways", "another_worker_is_well", "machine", "well_by_now"],
)
def test_what_may_be_no_failure_of_the_case_opens_nothing(nights: Nights, why: str) -> None:
    if why != "never_measured":
        nights.run(13, OK, BF16)
    status = Status.INFRA_ERROR if why == "machine" else WRONG
    nights.run(14, status, BF16)
    if why == "another_worker_is_well":
        nights.run(14, OK, BF16, worker="w2")
        nights.run(15, OK, BF16, worker="w2")
    if why != "once":
        nights.run(15, OOM if why == "in_two_ways" else status, BF16)
    if why == "well_by_now":
        nights.run(16, OK, BF16)
    assert nights.look() == []


def test_what_a_person_closed_is_told_again_only_as_news(nights: Nights) -> None:
    told = broken(nights)["summary"]
    nights.act(told["id"], "infrastructure")
    nights.run(16, WRONG, BF16, COMPILED)
    assert nights.look() == []  # that is known, until the cases are well
    nights.run(17, OK, BF16, COMPILED)
    nights.run(18, WRONG, BF16)
    nights.run(19, WRONG, BF16)
    (again,) = nights.look()
    nights.act(again["summary"]["id"], "resolve")
    nights.run(19, OK, PLAIN)
    assert nights.look() == []
    nights.run(19, WRONG, BF16)
    assert len(nights.look()) == 1  # it is not resolved


def test_it_is_over_when_its_results_are_taken_out(nights: Nights, client: TestClient) -> None:
    nights.run(13, OK, BF16)
    results = [*nights.run(14, OOM, BF16), *nights.run(15, OOM, BF16)]
    (found,) = nights.look()
    assert (
        found["summary"]["headline"]
        == "nanogpt:tiny precision=bf16 runs out of device memory since r14"
    )
    for result in results:
        said = {"reason": "Another program used the device.", "actor": "ada"}
        assert client.put(f"{API}/results/{result}/exclusion", json=said).is_success
    assert nights.look() == []
    assert nights.finding(found["summary"]["id"])["summary"]["state"] == "resolved"


@pytest.mark.parametrize("stray", [OOM, Status.UNBUILDABLE])
def test_one_failure_of_another_kind_ends_nothing(nights: Nights, stray: Status) -> None:
    told = broken(nights)["summary"]
    nights.run(16, stray, BF16, COMPILED)
    assert nights.look() == []
    assert nights.finding(told["id"])["summary"]["state"] == "open"
    nights.run(17, WRONG, BF16, COMPILED)
    nights.run(18, WRONG, BF16, COMPILED)
    assert nights.look() == []
    known = nights.finding(told["id"])["summary"]
    assert (known["state"], known["first_bad"]) == ("open", "r14")


def test_what_fails_in_another_way_from_then_on_is_another_finding(nights: Nights) -> None:
    told = broken(nights)["summary"]
    nights.run(16, OK, PLAIN)
    nights.run(16, OOM, BF16, COMPILED)
    nights.run(17, OOM, BF16, COMPILED)
    (found,) = nights.look()
    assert found["summary"]["headline"] == "bf16 nanogpt runs out of device memory since r16"
    assert nights.finding(told["id"])["summary"]["state"] == "resolved"


def test_what_is_measured_no_longer_is_not_over(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = broken(nights)["summary"]
    monkeypatch.setattr("service.history.failing.REMEMBERED", timedelta(0))
    nights.run(16, OK, PLAIN)
    assert nights.look() == []
    assert nights.finding(told["id"])["summary"]["state"] == "open"


def test_a_pass_that_somebody_took_out_ends_nothing(nights: Nights, client: TestClient) -> None:
    told = broken(nights)["summary"]
    for result in nights.run(16, OK, BF16, COMPILED):
        said = {"reason": "It ran other code.", "actor": "ada"}
        assert client.put(f"{API}/results/{result}/exclusion", json=said).is_success
    assert nights.look() == []
    assert nights.finding(told["id"])["summary"]["state"] == "open"


def test_an_older_revision_that_is_well_opens_nothing_that_a_person_closed(nights: Nights) -> None:
    nights.run(12, OK, BF16)
    nights.run(15, WRONG, BF16)
    nights.run(16, WRONG, BF16)
    (found,) = nights.look()
    nights.act(found["summary"]["id"], "expect")
    nights.run(17, WRONG, BF16)
    nights.run(13, OK, BF16)
    assert nights.look() == []


def test_another_driver_at_the_same_point_is_named(nights: Nights) -> None:
    nights.run(13, OK, BF16)
    newer = FACTS | {"hw.gpu.driver": "560"}
    older = FACTS | {"hw.gpu.driver": "550"}
    nights.run(13, OK, BF16, facts=older)
    nights.run(14, WRONG, BF16, facts=newer)
    nights.run(15, WRONG, BF16, facts=newer)
    (found,) = nights.look()
    assert found["summary"]["cause"] == Cause.ENVIRONMENT
    assert "driver 550 -> 560 changed at the same point" in found["summary"]["sentence"]


@pytest.mark.parametrize(
    ("good", "bad", "left"),
    [
        (12, 16, (13, 15)),
        (14, 16, (14, 15)),
        (12, 14, (13, 14)),
        (15, 16, None),
        (10, 13, None),
        (None, 14, None),
    ],
)
def test_cases_belong_together_if_a_revision_is_left_that_can_have_broken_both(
    good: int | None, bad: int, left: tuple[int, int] | None
) -> None:
    def place(number: int) -> tuple[datetime, str]:
        return NOW + timedelta(days=number), f"r{number}"

    known = Breakage("", "oom", place(13), place(15))
    both = known.with_(Breakage("", "oom", None if good is None else place(good), place(bad)))
    assert both == (left and Breakage("", "oom", *map(place, left)))
    assert known.with_(Breakage("", "timeout", place(13), place(15))) is None
