"""Each replicate of a case is a job; they are queued in rounds, and their history has one point."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from builders.measured import a_pass, a_replicate
from builders.service_hand import FACTS, Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.contracts import (
    Direction,
    Lease,
    Parity,
    ParityStatus,
    Purpose,
    Result,
    Sample,
    Status,
)
from service.database.session import now_of
from service.history import pending, replicates
from service.jobs import groups, types
from service.jobs.expand import expand
from service.jobs.requests import SubmissionRequest
from service.maintenance.verify import verify
from service.models import Job, WorkerRow

WORKLOADS = ("nanogpt", "resnet50", "unet")
Told = dict[str, Any]
PATIENCE = timedelta(minutes=15)


@pytest.fixture
def submitted(client: TestClient) -> Told:
    return put(client)


def put(client: TestClient, workloads: Sequence[str] = WORKLOADS, **more: Any) -> Told:
    cases = [{"workload": workload} for workload in workloads]
    body = {"cases": cases, "revision": "r1", "replicates": 3, **more}
    answer = client.post("/api/v1/submissions", json=body)
    assert answer.status_code == 201, answer.text
    told: Told = answer.json()
    return told


def one(lease: Lease, value: float = 100.0, **more: Any) -> Result:
    return result_of(lease, (value,), **more)


def measure(hand: Hand, value: float = 100.0, **more: Any) -> Lease:
    """Measure the next replicate, whatever it is of."""
    lease = hand.must_claim()
    assert hand.start(lease).status_code == 204
    answer = hand.post(lease, one(lease, value, **more))
    assert answer.status_code == 201, answer.text
    return lease


def job_of(client: TestClient, lease: Lease) -> Told:
    told: Told = client.get(f"/api/v1/jobs/{lease.job_id}").json()
    return told


def result_id(client: TestClient, lease: Lease) -> str:
    return str(job_of(client, lease)["result_id"])


def points(client: TestClient, workload: str, metric: str = "throughput") -> list[Told]:
    """The points of all series of a workload."""
    found = client.get("/api/v1/series", params={"workload": workload, "metric": metric}).json()
    series = [client.get(f"/api/v1/series/{one['id']}").json() for one in found["items"]]
    return [point for one in series for point in one["points"]]


def counts(client: TestClient, submitted: Told) -> Told:
    told: Told = client.get(f"/api/v1/submissions/{submitted['id']}").json()["counts"]
    return told


def sound(client: TestClient) -> bool:
    report = verify(client.app.state.database)  # type: ignore[attr-defined]
    assert report.kept, [finding.sentence for finding in report.findings if finding.breaches]
    return True


@pytest.mark.both_databases
def test_every_case_has_a_process_in_every_round_and_each_round_goes_the_other_way(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    leases = [measure(hand) for _ in range(9)]
    order = [lease.spec.case.workload for lease in leases]
    assert order == [*WORKLOADS, *WORKLOADS[::-1], *WORKLOADS]
    assert [lease.spec.replicate for lease in leases] == [1] * 3 + [2] * 3 + [3] * 3
    assert hand.claim() is None
    assert counts(client, submitted) == {"succeeded": 3}
    jobs = client.get(f"/api/v1/submissions/{submitted['id']}").json()["jobs"]
    told = [(job["case"]["workload"], job["replicate"], job["replicates"]) for job in jobs]
    assert told == [(name, number, 3) for name in WORKLOADS for number in (1, 2, 3)]
    assert sound(client)


def test_cases_with_fewer_replicates_than_others_are_done_sooner() -> None:
    request = {"case": {"workload": "unet"}, "revision": "r1", "purpose": Purpose.HISTORY}
    specs = [
        *expand(SubmissionRequest(**request, replicates=1)),
        *expand(SubmissionRequest(**request, replicates=3)),
    ]
    assert [(place, spec.replicate) for place, spec in groups.rounds(specs)] == [
        *((0, 1), (1, 1)),
        (1, 2),
        (1, 3),
    ]


@pytest.mark.both_databases
def test_the_replicates_of_a_case_are_one_point(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    leases = [measure(hand, value) for value in range(100, 109)]
    own = [lease for lease in leases if lease.spec.case.workload == "unet"]
    ids = [result_id(client, lease) for lease in own]
    (point,) = points(client, "unet")
    assert (point["replicates"], point["value"]) == (3, pytest.approx(313 / 3))
    assert (point["interval"], point["result_id"]) == ("replicates", ids[0])
    for name, value in zip(ids, (102.0, 103.0, 108.0), strict=True):
        told = client.get(f"/api/v1/results/{name}").json()
        assert (told["result"]["samples"][0]["values"], told["parts"]) == ([value], ids)
        assert "104.3" in client.get(f"/runs/{name}").text
    report = client.get(f"/api/v1/submissions/{submitted['id']}/report").json()
    assert [row["throughput"]["replicates"] for row in report["rows"]] == [3] * 3
    assert sound(client)


def test_the_point_of_several_results_is_that_of_one_result_of_all(
    client: TestClient, hand: Hand
) -> None:
    values = (100.0, 101.5, 99.1)
    put(client, ["unet"])
    for value in values:
        measure(hand, value)
    put(client, ["unet"], revision="r2", replicates=1)
    hand.measure(values)
    apart, together = points(client, "unet")
    for name in ("value", "low", "high", "interval", "replicates"):
        assert apart[name] == together[name]


def test_a_case_makes_no_point_before_its_last_replicate(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    leases = [measure(hand) for _ in range(7)]
    assert client.get("/api/v1/series").json()["items"] != []
    assert [len(points(client, workload)) for workload in WORKLOADS] == [1, 0, 0]
    assert counts(client, submitted) == {"succeeded": 1, "queued": 2}
    page = client.get(f"/runs/{result_id(client, leases[1])}").text
    assert "2 of 3 replicates" in page
    assert sound(client)


def test_nothing_is_analysed_before_the_last_replicate(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]
    seen = []
    for _ in range(9):
        measure(hand)
        with database.reading() as session:
            seen.append(len(pending.pending_series(session).notes))
    assert seen == [0] * 6 + [1, 2, 3]


def test_a_point_is_as_new_as_its_last_replicate(client: TestClient, hand: Hand) -> None:
    put(client, ["unet"])
    database = client.app.state.database  # type: ignore[attr-defined]
    first = result_id(client, measure(hand))
    measure(hand)
    with database.reading() as session:
        before = now_of(session)
    measure(hand)
    with database.reading() as session:
        after = now_of(session)
        assert replicates.received_after(session, [first], before) == {first}
        assert replicates.received_after(session, [first], after) == frozenset()


@pytest.mark.both_databases
def test_a_replicate_that_is_posted_twice_is_taken_once(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    lease = measure(hand)
    again = hand.post(lease, one(lease))
    assert (again.status_code, again.json()["counted"]) == (200, True)
    assert measure(hand).job_id != lease.job_id


def test_a_replicate_that_comes_too_late_is_kept_and_moves_nothing(
    client: TestClient, hand: Hand, submitted: Told, expire: Callable[[], types.Swept]
) -> None:
    late = hand.must_claim()
    assert hand.start(late).status_code == 204
    expire()
    assert hand.post(late, one(late)).status_code == 409
    leases = [measure(hand) for _ in range(9)]
    assert sum(lease.group == late.group for lease in leases) == 3
    assert sound(client)


def test_what_is_more_urgent_goes_between_two_rounds_and_a_later_submission_after_them(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    measure(hand)
    put(client, ["unet"], revision="later", replicates=1)
    put(client, ["unet"], revision="urgent", replicates=1, priority=5)
    assert measure(hand).spec.revision == "urgent"
    rest = [measure(hand).spec.revision for _ in range(9)]
    assert rest == ["r1"] * 8 + ["later"]


def test_the_replicates_of_a_case_are_of_one_worker(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    begun = hand.must_claim()
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    theirs = [measure(other) for _ in range(6)]
    assert begun.group not in {lease.group for lease in theirs}
    assert other.claim() is None
    assert hand.post(begun, one(begun)).status_code == 201
    assert [measure(hand).group for _ in range(2)] == [begun.group] * 2
    assert sound(client)


def test_a_worker_that_gives_its_only_replicate_back_keeps_none(
    client: TestClient, hand: Hand
) -> None:
    put(client, ["unet"])
    begun = hand.must_claim()
    assert hand.tell(begun, "release", {"reason": "it stops"}).status_code == 204
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    assert [measure(other).group for _ in range(3)] == [begun.group] * 3
    assert sound(client)


@pytest.mark.both_databases
def test_a_worker_that_is_gone_loses_what_is_kept_for_it_and_each_has_a_point(
    client: TestClient, hand: Hand
) -> None:
    put(client, WORKLOADS[:2])
    begun = measure(hand, 1.0)
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        now = now_of(session)
        away = now - PATIENCE - timedelta(seconds=1)
        session.execute(update(WorkerRow).values(last_seen_at=away))
        assert groups.release_absent(session, PATIENCE, now) == 0  # it was queued just now
        session.execute(update(Job).values(queued_at=away))
        groups.reset_patience(session, now)  # as after a service that was down
        assert groups.release_absent(session, PATIENCE, now) == 0
        session.execute(update(Job).values(queued_at=away))
        assert groups.release_absent(session, PATIENCE, now) == 2
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    leases = [measure(other, 2.0) for _ in range(5)]
    assert sum(lease.group == begun.group for lease in leases) == 2
    found = points(client, begun.spec.case.workload)
    told = [(point["worker"], point["replicates"], point["value"]) for point in found]
    assert sorted(told) == [("w1", 1, 1.0), ("w2", 2, 2.0)]
    assert sound(client)


@pytest.mark.both_databases
def test_a_worker_that_may_no_longer_do_a_job_lets_another_do_it(
    client: TestClient, hand: Hand
) -> None:
    hand.introduce(device="cpu", models="mypkg.bench")
    other = Hand(client, "w2")
    other.introduce(device="cpu", models="mypkg.bench")
    put(client, WORKLOADS[:2], requires={"models": "mypkg.bench"})
    begun = {measure(hand).group for _ in range(2)}
    database = client.app.state.database  # type: ignore[attr-defined]

    def released() -> int:
        with database.writing() as session:
            return groups.release_absent(session, PATIENCE, now_of(session))

    hand.introduce(device="cpu", models="mypkg.bench", room="2")
    assert released() == 0
    hand.introduce(device="cpu")
    assert (hand.claim(), other.claim()) == (None, None)
    assert released() == 4
    theirs = [measure(other) for _ in range(4)]
    assert {lease.group for lease in theirs} == begun
    assert sound(client)


def test_replicates_of_another_environment_are_a_point_of_their_own(
    client: TestClient, hand: Hand
) -> None:
    put(client, ["unet"])
    measure(hand, 1.0)
    changed = FACTS | {"sw.driver": "2"}
    for _ in range(2):
        measure(hand, 2.0, facts=changed)
    found = points(client, "unet")
    assert [(point["replicates"], point["value"]) for point in found] == [(1, 1.0), (2, 2.0)]
    assert sound(client)


def test_only_the_first_replicate_has_passes_beside_timing_and_cold_caches(
    client: TestClient, hand: Hand
) -> None:
    put(client, ["unet"], protocol={"replicates": 3, "parity": True})
    asked = []
    while (lease := hand.claim()) is not None:
        asked.append(lease.spec.protocol.parity)
        first = lease.spec.replicate == 1
        step = Sample(
            metric="first_step_time",
            unit="s",
            direction=Direction.LOWER,
            values=(30.0 if first else 3.0,),
        )
        parity = Parity(status=ParityStatus.PASS) if first else None
        own = one(lease, protocol=lease.spec.protocol, parity=parity)
        result = own.model_copy(update={"samples": (*own.samples, step)})
        assert hand.post(lease, result).status_code == 201
    assert asked == [True, False, False]
    (cold,), (warm,) = (
        points(client, "unet", metric) for metric in ("first_step_time", "first_step_time_warm")
    )
    assert (cold["value"], cold["replicates"]) == (30.0, 1)
    assert (warm["value"], warm["replicates"]) == (3.0, 2)
    (row,) = client.get("/api/v1/submissions").json()["items"]
    report = client.get(f"/api/v1/submissions/{row['id']}/report").json()
    assert [one["parity"] for one in report["rows"]] == ["pass"]
    assert sound(client)


def test_replicates_without_the_first_say_nothing_of_the_first_step(
    client: TestClient, hand: Hand
) -> None:
    put(client, ["unet"])
    for number in range(3):
        lease = hand.must_claim()
        own = one(lease, facts=FACTS | {"sw.driver": str(min(number, 1))})
        step = Sample(metric="first_step_time", unit="s", direction=Direction.LOWER, values=(3.0,))
        assert hand.post(lease, own.model_copy(update={"samples": (*own.samples, step)})).is_success
    assert [len(points(client, "unet", name)) for name in ("throughput", "first_step_time")] == [
        *(2, 1)
    ]
    assert points(client, "unet", "first_step_time_warm") == []
    assert sound(client)


@pytest.mark.parametrize(
    ("status", "state"),
    [(Status.OOM, "failed"), (Status.TIMEOUT, "failed"), (Status.CANCELLED, "cancelled")],
)
def test_a_replicate_that_fails_ends_its_case_and_no_other(
    client: TestClient, hand: Hand, submitted: Told, status: Status, state: str
) -> None:
    leases = [measure(hand) for _ in range(3)]
    failed = measure(hand, status=status, reason="It does not fit.")
    assert failed.group == leases[-1].group
    job = job_of(client, failed)
    assert (job["state"], job["reason"]) == (state, "It does not fit.")
    jobs = client.get(f"/api/v1/submissions/{submitted['id']}").json()["jobs"]
    rest = [one for one in jobs if one["group_id"] == failed.group]
    assert [one["state"] for one in rest] == ["succeeded", state, "cancelled"]
    assert rest[2]["reason"] == f"Replicate 2 {state}."
    assert counts(client, submitted) == {state: 1, "queued": 2}
    report = client.get(f"/api/v1/submissions/{submitted['id']}/report").json()
    (row,) = (one for one in report["rows"] if one["case"]["workload"] == "unet")
    assert (row["state"], row["status"], row["reason"]) == (state, status, "It does not fit.")
    left = [measure(hand).spec.case.workload for _ in range(4)]
    assert "unet" not in left
    assert points(client, "unet") == []
    assert sound(client)


@pytest.mark.both_databases
def test_a_replicate_that_is_quarantined_ends_its_case(
    client: TestClient, hand: Hand, expire: Callable[[], types.Swept]
) -> None:
    submitted = put(client, ["unet"])
    while hand.claim() is not None:
        expire()
    jobs = client.get(f"/api/v1/submissions/{submitted['id']}").json()["jobs"]
    assert sorted(job["state"] for job in jobs) == ["cancelled", "cancelled", "quarantined"]
    assert counts(client, submitted) == {"quarantined": 1}
    assert sound(client)


@pytest.mark.both_databases
@pytest.mark.parametrize("held", [False, True])
def test_a_case_can_be_cancelled_by_any_of_its_replicates(
    client: TestClient, hand: Hand, submitted: Told, held: bool
) -> None:
    begun = [measure(hand) for _ in range(3)][-1]
    lease = hand.must_claim() if held else None
    last = client.get(f"/api/v1/submissions/{submitted['id']}").json()["jobs"][-1]
    assert client.post(f"/api/v1/jobs/{last['id']}/cancel").json()["state"] == "cancelled"
    if lease is not None:
        assert lease.group == begun.group
        assert hand.beat(lease).json()["cancel"]
        hand.post(lease, one(lease, status=Status.CANCELLED))
    assert counts(client, submitted) == {"cancelled": 1, "queued": 2}
    assert begun.group not in {measure(hand).group for _ in range(4)}
    assert sound(client)


@pytest.mark.both_databases
def test_an_excluded_replicate_takes_the_point_of_its_case_out(
    client: TestClient, hand: Hand
) -> None:
    put(client, ["unet"])
    ids = [result_id(client, measure(hand)) for _ in range(2)]
    said = {"reason": "a fan stood still", "actor": "kim"}
    assert client.put(f"/api/v1/results/{ids[1]}/exclusion", json=said).is_success
    ids.append(result_id(client, measure(hand)))
    (point,) = points(client, "unet")
    assert point["excluded"]
    assert sound(client)
    again = client.put(f"/api/v1/results/{ids[0]}/exclusion", json=said)
    assert again.status_code == 409
    assert "a fan stood still" in client.get(f"/runs/{ids[0]}").text
    back = client.delete(f"/api/v1/results/{ids[2]}/exclusion", params={"actor": "kim"})
    assert back.json()["result_id"] == ids[1]
    (point,) = points(client, "unet")
    assert not point["excluded"]
    assert sound(client)


def test_a_result_of_several_replicates_is_none_of_one(client: TestClient, hand: Hand) -> None:
    put(client, ["unet"])
    lease = hand.must_claim()
    timed = a_replicate(a_pass(0.1), a_pass(0.1))
    both = hand.post(lease, one(lease, replicates=(timed, timed)))
    assert (both.status_code, both.json()["type"]) == (422, "invalid")
    assert "each is a job" in both.json()["detail"]
    assert hand.post(lease, one(lease, replicates=(timed,))).status_code == 201


def test_a_case_alone_has_its_replicates_one_after_the_other(
    client: TestClient, hand: Hand
) -> None:
    body = {"case": {"workload": "unet"}, "revision": "r1", "protocol": {"replicates": 2}}
    first = client.post("/api/v1/jobs", json=body).json()
    assert (first["replicate"], first["replicates"]) == (1, 2)
    leases = [measure(hand), measure(hand)]
    assert [lease.group for lease in leases] == [first["id"]] * 2
    assert hand.claim() is None
    assert "Replicates of its case" in client.get(f"/jobs/{first['id']}").text
    assert sound(client)
