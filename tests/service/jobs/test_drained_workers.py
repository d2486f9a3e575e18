"""A drained worker finishes what it has, and gets no job until somebody resumes it."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders.corrupted import broken
from builders.gate_hand import GateHand
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import Claim, Worker
from service import comparisons
from service.database.session import Database, now_of
from service.jobs import expiry, leases, workers
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit as put
from service.jobs.types import Terms
from service.maintenance.verify import verify
from service.models import Eligibility, OutboxEvent, WorkerRow
from service.schemas.jobs import Drain, WorkerView
from service.wording import waiting

Submit = Callable[..., dict[str, Any]]
API = "/api/v1/workers"
TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
BROKEN = {"reason": "fan broken", "actor": "ada"}


def drain(client: TestClient, name: str = "w1", **body: str) -> Any:
    return client.put(f"{API}/{name}/drain", json=body or BROKEN)


def resume(client: TestClient, name: str = "w1") -> Any:
    return client.delete(f"{API}/{name}/drain")


def text_of(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", answer.text))


def test_it_finishes_what_it_has_and_gets_nothing_more_until_it_is_resumed(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1")
    submit("r2")
    lease = hand.must_claim()
    assert hand.start(lease).is_success
    drained = drain(client).json()["drain"]
    assert (drained["actor"], drained["reason"]) == ("ada", "fan broken")
    assert hand.post(lease, result_of(lease)).status_code == 201
    assert hand.claim() is None
    hand.introduce()  # it starts again
    assert hand.claim() is None
    submit("r3", requires={"worker": "w1"})  # labels that nobody asked for before
    assert hand.claim() is None
    [one] = client.get(API).json()["items"]
    assert one["drain"] == drained
    assert resume(client).json()["drain"] is None
    assert hand.must_claim().spec.revision == "r2"
    assert hand.must_claim().spec.revision == "r3"


def test_a_drain_is_refused_for_nobody_and_twice(client: TestClient, hand: Hand) -> None:
    assert drain(client, "nobody").status_code == 404
    assert resume(client, "nobody").status_code == 404
    assert resume(client).status_code == 404
    assert drain(client).status_code == 200
    again = drain(client, reason="no", actor="bob")
    assert again.status_code == 409
    assert "by ada" in again.json()["detail"]
    assert client.get(API).json()["items"][0]["drain"]["reason"] == "fan broken"


def test_without_a_name_it_is_whoever_calls(client: TestClient, hand: Hand) -> None:
    assert client.put(f"{API}/w1/drain", json={}).json()["drain"]["actor"] == "anybody"


def test_replicates_that_were_kept_for_it_go_to_others(
    client: TestClient, hand: Hand, submit: Submit, database: Database
) -> None:
    other = Hand(client, "w2")
    other.introduce()
    submit("r1", replicates=2)
    first = hand.must_claim()
    assert hand.post(first, result_of(first)).status_code == 201
    assert other.claim() is None
    drain(client)
    with database.writing() as session:
        expiry.sweep(session, TERMS, now_of(session))
    assert other.must_claim().spec.replicate == 2


def test_who_waits_is_told_why(client: TestClient, hand: Hand, submit: Submit) -> None:
    [job] = submit("r1")["jobs"]
    assert "No worker can take" not in text_of(client, f"/jobs/{job['id']}")
    drain(client, reason="fan broken.", actor="ada")
    told = "No worker can take this job: w1 is drained by ada: fan broken."
    assert told in text_of(client, f"/jobs/{job['id']}")
    other = Hand(client, "w2")
    other.introduce()
    assert "No worker can take" not in text_of(client, f"/jobs/{job['id']}")


def test_its_page_and_the_list_say_who_drained_it(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1")
    hand.must_claim()
    drain(client)
    said = text_of(client, "/workers/w1")
    assert "It is drained by ada, just now : fan broken ." in said
    assert "It finishes what it has and gets no other job" in said
    assert "Resume" in said
    assert "drained by ada, just now : fan broken" in text_of(client, "/workers")


def test_a_comparison_waits_for_it_and_says_so(client: TestClient) -> None:
    gate = GateHand(client, Hand(client, "g1"))
    gate.worker.introduce(["old", "new"], device="cpu")
    drain(client, "g1")
    asked = {"baseline": "old", "contender": "new", "case": {"workload": "unet"}}
    answer = client.post("/api/v1/comparisons", json=asked)
    assert answer.status_code == 201, answer.text
    path = f"/api/v1/comparisons/{answer.json()['id']}"
    app: Any = client.app
    list(comparisons.advance_after(app.state.database, ""))
    assert (
        client.get(path).json()["note"] == "Waits for a worker: g1 is drained by ada: fan broken."
    )
    resume(client, "g1")
    list(comparisons.advance_after(app.state.database, ""))
    assert gate.worker.claim() is not None
    drain(client, "g1")
    told = "Worker g1 is drained by ada: fan broken; both sides are pinned to its device."
    assert client.get(path).json()["note"].startswith(told)


def test_a_drained_worker_may_be_off(client: TestClient, hand: Hand, database: Database) -> None:
    drain(client)
    with database.writing() as session:
        now = now_of(session)
        session.execute(update(WorkerRow).values(last_seen_at=now - timedelta(hours=1)))
        workers.watch_presence(session, now)
        assert session.scalar(select(func.count()).select_from(OutboxEvent)) == 0


@pytest.mark.both_databases
def test_what_verify_expects_of_claims_holds_while_it_is_drained(
    client: TestClient, hand: Hand, submit: Submit, database: Database
) -> None:
    submit("r1")
    drain(client)
    submit("r2", requires={"worker": "w1"})
    with database.reading() as session:
        assert session.scalars(select(Eligibility)).all() == []
    assert broken(verify(database)) == {}
    with database.writing() as session:
        session.execute(update(WorkerRow).values(drained_at=None))
    assert "Worker w1 meets it and has no row." in str(broken(verify(database)))


@pytest.mark.both_databases
def test_a_claim_under_way_is_had_or_refused_and_none_comes_after(database: Database) -> None:
    """A drain waits for the claim that has begun; whoever claims after it gets nothing."""

    def claim(session: Session) -> object:
        asked = Claim(worker="w1", claim_id=secrets.token_hex(16))
        return leases.lease(session, asked, TERMS, now_of(session))

    with database.writing() as session:
        workers.introduce(session, Worker(name="w1"), now_of(session))
        cases = SubmissionRequest.model_validate(
            {"cases": [{"workload": "unet"}, {"workload": "resnet50"}], "revision": "r1"}
        )
        put(session, cases, now_of(session))

    def drained() -> None:
        with database.writing() as session:
            workers.drain(session, "w1", "", "ada", now_of(session))

    with database.writing() as session:
        assert claim(session) is not None
        thread = threading.Thread(target=drained)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "it waits for the claim"
    thread.join(20)
    with database.writing() as session:
        assert claim(session) is None


NOW = datetime(2026, 11, 20, tzinfo=UTC)
AGO = "3\N{NO-BREAK SPACE}d\N{NO-BREAK SPACE}ago"
DRAIN = Drain(actor="ada", reason="fan broken", at=NOW)


def a_worker(name: str, *, away: bool = False, drain: Drain | None = None) -> WorkerView:
    return WorkerView(
        name=name,
        labels={"gpus": "4"},
        version="",
        revisions=None,
        warnings=[],
        targets={},
        drain=drain,
        first_seen_at=NOW,
        last_seen_at=NOW - timedelta(days=3 if away else 0),
    )


@pytest.mark.parametrize(
    ("known", "requires", "said"),
    [
        ([a_worker("a")], {"gpus": "2"}, ""),
        ([a_worker("a"), a_worker("b", drain=DRAIN)], {}, ""),
        ([a_worker("a")], {"gpus": "8"}, "none has its labels."),
        ([], {}, "none has its labels."),
        (
            [a_worker("a", drain=DRAIN), a_worker("b", away=True)],
            {},
            f"a is drained by ada: fan broken; b was last seen {AGO}.",
        ),
        (
            [a_worker(str(number), drain=DRAIN) for number in range(7)],
            {},
            "2 more are drained or away.",
        ),
    ],
)
def test_it_is_said_why_no_worker_takes_a_job(
    known: list[WorkerView], requires: dict[str, str], said: str
) -> None:
    told = waiting.why_queued(known, requires, NOW - waiting.AWAY, NOW)
    assert told.endswith(said)
    assert bool(told) == bool(said)
