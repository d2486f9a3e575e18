"""A database in which everything has happened that a service can do: at least one row a table.

Everything goes through the HTTP API or, where that would take nights, through the functions that
it calls. Only a settled window is written by hand: it would take some three hundred points.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from builders.access import Doorman, guarded
from builders.bisected import BisectionHand, stepped
from builders.gate_hand import GateHand, steady
from builders.nights import Team
from builders.service_hand import FACTS, Hand, result_of
from builders.traces import a_trace_file
from fastapi.testclient import TestClient
from sqlalchemy import select

from benchmarks.contracts import (
    Bottleneck,
    Case,
    Direction,
    Sample,
    Status,
    Verdict,
)
from service.database.session import Database, now_of
from service.findings import pipeline
from service.jobs import commit_ranges, expiry, schedules
from service.models import FindingRow, Point, SettledWindow
from service.outbox import deliveries, forge_comments

API = "/api/v1"
NIGHTS = 11
DROP = 9
"""The revision with which the only case of the nights becomes slower."""
LATER = timedelta(hours=1)


def live(database_url: str, state_dir: Path) -> None:
    """Fill a migrated database."""
    with guarded(database_url, state_dir) as doorman:
        admin = doorman.token("admin", "root")
        doorman.client.headers["Authorization"] = f"Bearer {admin}"
        _nights(doorman.database)
        _submissions(doorman.client, doorman.database)
        _replicates(doorman.client)
        _gate(doorman.client)
        _bisection(doorman.client)
        _commit_range(doorman.client, doorman.database)
        _schedules(doorman.client, doorman.database)
        _opinions(doorman.client, doorman.database)
        _imports(doorman.client)
        _tokens(doorman)
        with doorman.database.writing() as session:
            deliveries.test(session, "ci", now_of(session))
            forge_comments.claim(session, "hub", "command:900", now_of(session))
        Hand(doorman.client).measure()  # noted, and not analysed yet
        _submit(doorman.client, "r3", workload="nanogpt")  # and one that waits


def _speed(_case: Case, code: int, worker: str, _night: int) -> float:
    return (95.0 if code >= DROP else 100.0) * (1.002 if worker == "b" else 1.0)


def _nights(database: Database) -> None:
    """Histories with a regression that was measured again, and told."""
    case = Case(workload="unet", preset="full")
    team = Team(database, _speed, names=("a", "b"), cases=(case,))
    for number in range(NIGHTS):
        team.night(number)
    with database.writing() as session:
        point = session.scalars(select(Point).order_by(Point.revision_at.desc())).first()
        assert point is not None
        window = {"number": 0, "ends_at": point.revision_at, "next_from": point.result_id}
        session.add(SettledWindow(series_id=point.series_id, changes=[], **window))


def _submit(client: TestClient, revision: str, key: str = "", **more: Any) -> dict[str, Any]:
    asked = more.pop("case", {"workload": more.pop("workload", "resnet50")})
    body = {"case": asked, "revision": revision, **more}
    headers = {"Idempotency-Key": key} if key else {}
    answer = client.post(f"{API}/submissions", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    submission: dict[str, Any] = answer.json()
    return submission


def _submissions(client: TestClient, database: Database) -> None:
    """Keys, a project, a trace, a date, and every way in which a job can end."""
    hand = Hand(client)
    hand.introduce(device="cpu")
    for number, revision in enumerate(("r1", "r2")):
        _submit(client, revision, f"key-{number}", revision_at=f"2026-0{number + 1}-01T00:00:00Z")
        hand.measure(
            verdict=Verdict(bottleneck=Bottleneck.COMPUTE, confidence="high", sentence=".")
        )
    _submit(client, "r1", project="red")
    within = Sample(
        metric="throughput", unit="img/s", direction=Direction.HIGHER, values=(9.0,),
        half_widths=(0.5,),
    )  # fmt: skip
    hand.measure(samples=(within,), facts=FACTS | {"sw.torch": "2.14"})
    _submit(client, "r2", trace=True)
    lease = hand.must_claim()
    assert hand.post(lease, result_of(lease)).status_code == 201
    assert hand.post_trace(lease, a_trace_file()).status_code == 201
    _submit(client, "r2", workload="nanogpt")
    hand.measure(status=Status.OOM, reason="The batch does not fit.")
    _lose(client, hand, database)
    _submit(client, "r2", workload="unet")
    lease = hand.must_claim()
    assert hand.tell(lease, "release", {"reason": "Stopping."}).status_code == 204
    assert client.post(f"{API}/jobs/{lease.job_id}/cancel").status_code == 200


def _lose(client: TestClient, hand: Hand, database: Database) -> None:
    """An attempt that is lost, whose result comes too late, and one that follows it."""
    app: Any = client.app
    _submit(client, "r2", workload="unet")
    late = hand.must_claim()
    with database.writing() as session:
        expiry.sweep(session, app.state.terms, now_of(session) + LATER)
    answer = hand.post(late, result_of(late))
    assert answer.status_code == 409, answer.text
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    other.measure()


def _replicates(client: TestClient) -> None:
    """Two cases in two processes each; one is whole, and one process of the other waits."""
    cases = [{"workload": workload} for workload in ("resnet50", "unet")]
    body = {"cases": cases, "revision": "r2", "replicates": 2, "priority": 50}
    assert client.post(f"{API}/submissions", json=body).status_code == 201
    hand = Hand(client)
    for value in (100.0, 50.0, 51.0):
        lease = hand.must_claim()
        assert hand.start(lease).status_code == 204
        assert hand.post(lease, result_of(lease, (value,))).status_code == 201


def _gate(client: TestClient) -> None:
    """A comparison that passed, with a key, and one that waits for a worker."""
    gate = GateHand(client, Hand(client, "g1"))
    gate.worker.introduce(device="cuda", pool="gate")
    asked = {"baseline": "old", "contender": "new", "case": {"workload": "resnet50"}}
    asked |= {"requires": {"pool": "gate"}}
    key = {"Idempotency-Key": "gate-1"}
    answer = client.post(f"{API}/comparisons", json=asked, headers=key)
    gate.measure(steady())
    assert gate.read(answer.json()["id"])["outcome"] == "pass"
    gate.start(requires={"pool": "none"})


def _bisection(client: TestClient) -> None:
    """A bisection that named its culprit."""
    bisecting = BisectionHand(GateHand(client, Hand(client, "b1")))
    bisecting.gate.worker.introduce(device="cuda", pool="bisection")
    told = bisecting.start(2, requires={"pool": "bisection"})
    bisecting.measure(stepped(1))
    assert bisecting.read(told["id"])["outcome"] == "culprit"


def _commit_range(client: TestClient, database: Database) -> None:
    """Two commits, and what a worker lists between them."""
    good, bad = "a" * 40, "b" * 40
    builder = {"name": "b2", "labels": {"pool": "none"}, "targets": {"ours": ""}}
    builder |= {"revisions": [good, bad]}
    commits = [{"commit": bad, "at": "2026-11-20T01:00:00Z", "title": "Faster"}]
    for more in ({}, {"listed": {"good": good, "bad": bad, "commits": commits}}):
        assert client.put(f"{API}/workers/b2", json=builder | more).status_code == 200
        with database.writing() as session:
            known = commit_ranges.ask(session, good, bad, now_of(session))
    assert known.listed_at is not None


def _schedules(client: TestClient, database: Database) -> None:
    hourly = {"cron": "0 * * * *", "suite": "smoke", "requires": {"pool": "none"}}
    assert client.put(f"{API}/schedules/hourly", json=hourly).status_code == 200
    with database.writing() as session:
        now = now_of(session)
        fired = [schedules.fire_due(session, now + hours * LATER) for hours in (1, 2)]
    assert all(fired)


def _opinions(client: TestClient, database: Database) -> None:
    """What people say of results and findings."""
    assert pipeline.look(database).notes
    with database.reading() as session:
        finding = session.scalars(select(FindingRow.id)).one()
        first = select(Point.result_id).distinct().order_by(Point.result_id).limit(2)
        results = session.scalars(first).all()
    act = {"action": "acknowledge", "actor": "ada", "detail": "I look."}
    assert client.post(f"{API}/findings/{finding}/actions", json=act).status_code == 200
    plan = {"actor": "ada", "owner": "bob", "note": "the driver", "due_on": "2030-01-02"}
    assert client.patch(f"{API}/findings/{finding}", json=plan).status_code == 200
    for result in results:
        why = {"reason": "fan broken", "actor": "ada"}
        answer = client.put(f"{API}/results/{result}/exclusion", json=why)
        assert answer.status_code == 200, answer.text
    for size in (0.02, 0.03):
        chosen = {"least_effect": size, "metric": "throughput", "reason": "noise", "actor": "ada"}
        answer = client.put(f"{API}/thresholds", json=chosen)
        assert answer.status_code == 200, answer.text
    for about in ({"revision": "r1"}, {"at": "2026-01-15T00:00:00Z"}):
        note = about | {"text": "moved to rack 4", "actor": "ada"}
        assert client.post(f"{API}/annotations", json=note).status_code == 201
    undone = client.delete(f"{API}/results/{results[1]}/exclusion", params={"actor": "ada"})
    assert undone.status_code == 200


def _imports(client: TestClient) -> None:
    """What another tool has measured at commits of its own, and at one of ours."""
    point = {
        "benchmark": "bench_sort",
        "parameters": {"n": "10"},
        "metric": "time",
        "unit": "s",
        "direction": "lower",
        "machine": {"machine": "ci"},
    }
    points = [
        {"revision": "i1", "values": [1.0, 1.5], "committed_at": "2026-01-01T00:00:00Z"},
        {"revision": "i2", "values": [2.0], "low": 1.5, "high": 3.0, "at": "2026-01-02T00:00:00Z"},
        {"revision": "r1", "values": [1.25]},
    ]
    body = {"source": "asv", "points": [point | one for one in points]}
    assert client.post(f"{API}/imports", json=body).json()["new"] == 3


def _tokens(doorman: Doorman) -> None:
    client = doorman.client
    asked = {"kind": "submit", "name": "ci", "project": "red", "expires_in_s": 86_400.0}
    made = client.post(f"{API}/tokens", json=asked).json()
    assert client.post(f"{API}/tokens/{made['id']}/rotate").status_code == 200
    revoked = client.post(f"{API}/tokens", json={"kind": "read", "name": "gone"}).json()
    assert client.post(f"{API}/tokens/{revoked['id']}/revoke").status_code == 200
    codes = [client.post(f"{API}/enrolments", json={"worker": "w9"}).json() for _ in range(2)]
    shown = {"code": codes[0]["code"], "worker": "w9"}
    assert client.post(f"{API}/enrolments/redeem", json=shown).status_code == 201
    for kind in ("read", "admin"):
        token = doorman.token(kind)
        here = {"Sec-Fetch-Site": "same-origin"}
        form = {"token": token, "to": "/"}
        answer = client.post("/sign-in", data=form, headers=here, follow_redirects=False)
        assert answer.status_code == 303
    client.cookies.clear()
