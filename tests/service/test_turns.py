"""Jobs of one submission are measured a process at a time, in turn, and count when whole."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders.service_hand import FACTS, Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from benchmarks.contracts import (
    Case,
    Direction,
    Lease,
    Parity,
    ParityStatus,
    Result,
    Sample,
    Status,
)
from service.database.session import now_of
from service.jobs import interleave, types
from service.maintenance.verify import verify
from service.models import Job, ResultRow, WorkerRow
from worker.result_builder import Run, failure

pytestmark = pytest.mark.both_databases

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


def turn(hand: Hand, value: float = 100.0, **more: Any) -> Lease:
    """Take the next turn, whosever it is."""
    lease = hand.must_claim()
    assert hand.start(lease).status_code == 204
    answer = hand.post(lease, one(lease, value, **more))
    assert answer.status_code == 201, answer.text
    return lease


def job_of(client: TestClient, lease: Lease) -> Told:
    told: Told = client.get(f"/api/v1/jobs/{lease.job_id}").json()
    return told


def sound(client: TestClient) -> bool:
    return verify(client.app.state.database).kept  # type: ignore[attr-defined]


def test_every_case_has_a_process_in_every_round_and_each_round_goes_the_other_way(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    order = [turn(hand).spec.case.workload for _ in range(9)]
    assert order == [*WORKLOADS, *WORKLOADS[::-1], *WORKLOADS]
    assert hand.claim() is None
    counts = client.get(f"/api/v1/submissions/{submitted['id']}").json()["counts"]
    assert counts == {"succeeded": 3}


def test_with_its_last_turn_a_job_has_one_result_of_all_its_processes(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    told = [turn(hand, value) for value in range(100, 109)]
    last = [lease for lease in told if lease.spec.case.workload == "unet"]
    assert [lease.measured for lease in last] == [0, 1, 2]
    job = job_of(client, last[0])
    assert [attempt["state"] for attempt in job["attempts"]] == ["succeeded"] * 3
    assert job["attempts"][0]["reason"] == "Process 1 of 3; the next one waits for its turn."
    result = client.get(f"/api/v1/results/{job['result_id']}").json()["result"]
    (sample,) = result["samples"]
    assert sample["values"] == [102.0, 103.0, 108.0]
    series = client.get("/api/v1/series", params={"workload": "unet"}).json()["items"]
    (point,) = client.get(f"/api/v1/series/{series[0]['id']}").json()["points"]
    assert (point["replicates"], point["value"]) == (3, pytest.approx(313 / 3))
    assert sound(client)


def test_before_its_last_turn_a_job_counts_for_nothing(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    leases = [turn(hand) for _ in range(5)]
    assert job_of(client, leases[0])["result_id"] is None
    assert client.get("/api/v1/series").json()["items"] == []
    assert sound(client)


def test_a_turn_that_is_posted_twice_is_taken_once(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    lease = turn(hand)
    again = hand.post(lease, one(lease))
    assert (again.status_code, again.json()["counted"]) == (200, True)
    assert job_of(client, lease)["state"] == "queued"
    assert turn(hand).job_id != lease.job_id


def test_a_turn_that_comes_too_late_is_kept_and_moves_nothing(
    client: TestClient, hand: Hand, submitted: Told, expire: Callable[[], types.Swept]
) -> None:
    late = hand.must_claim()
    assert hand.start(late).status_code == 204
    expire()
    assert hand.post(late, one(late)).status_code == 409
    told = [turn(hand) for _ in range(9)]
    assert sum(lease.job_id == late.job_id for lease in told) == 3
    assert sound(client)


def test_what_is_more_urgent_goes_between_two_turns_and_a_later_submission_after_them(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    turn(hand)
    put(client, ["unet"], revision="later", replicates=1)
    put(client, ["unet"], revision="urgent", replicates=1, priority=5)
    assert turn(hand).spec.revision == "urgent"
    rest = [turn(hand).spec.revision for _ in range(9)]
    assert rest == ["r1"] * 8 + ["later"]


def test_its_processes_are_of_one_worker(client: TestClient, hand: Hand, submitted: Told) -> None:
    begun = turn(hand)
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    theirs = [turn(other) for _ in range(6)]
    assert begun.job_id not in {lease.job_id for lease in theirs}
    assert other.claim() is None
    assert [turn(hand).job_id for _ in range(2)] == [begun.job_id] * 2
    assert sound(client)


def test_a_worker_that_is_gone_loses_its_turns_and_another_begins_anew(
    client: TestClient, hand: Hand
) -> None:
    put(client, WORKLOADS[:2])
    begun = turn(hand, 1.0)
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        now = now_of(session)
        away = now - PATIENCE - timedelta(seconds=1)
        session.execute(update(WorkerRow).values(last_seen_at=away))
        assert interleave.release_absent(session, PATIENCE, now) == 0  # it was queued just now
        session.execute(update(Job).values(queued_at=away))
        interleave.reset_patience(session, now)  # as after a service that was down
        assert interleave.release_absent(session, PATIENCE, now) == 0
        session.execute(update(Job).values(queued_at=away))
        assert interleave.release_absent(session, PATIENCE, now) == 1
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    leases = [turn(other, 2.0) for _ in range(6)]
    own = [lease for lease in leases if lease.job_id == begun.job_id]
    assert [lease.measured for lease in own] == [0, 1, 2]
    result = client.get(f"/api/v1/results/{job_of(client, begun)['result_id']}").json()["result"]
    assert result["samples"][0]["values"] == [2.0, 2.0, 2.0]
    assert sound(client)


def test_a_worker_that_may_no_longer_do_a_job_lets_another_begin_it_anew(
    client: TestClient, hand: Hand
) -> None:
    hand.introduce(device="cpu", models="mypkg.bench")
    other = Hand(client, "w2")
    other.introduce(device="cpu", models="mypkg.bench")
    put(client, WORKLOADS[:2], requires={"models": "mypkg.bench"})
    begun = {turn(hand).job_id for _ in range(2)}
    database = client.app.state.database  # type: ignore[attr-defined]

    def forgotten() -> int:
        with database.writing() as session:
            return interleave.release_absent(session, PATIENCE, now_of(session))

    hand.introduce(device="cpu", models="mypkg.bench", room="2")
    assert forgotten() == 0
    hand.introduce(device="cpu")
    assert (hand.claim(), other.claim()) == (None, None)
    assert forgotten() == 2
    theirs = [turn(other) for _ in range(6)]
    assert {lease.job_id for lease in theirs} == begun
    assert sorted(lease.measured for lease in theirs) == [0, 0, 1, 1, 2, 2]
    assert sound(client)


def test_what_was_measured_in_another_environment_is_no_part_of_it(
    client: TestClient, hand: Hand
) -> None:
    put(client, WORKLOADS[:2])
    first = turn(hand, 1.0)
    turn(hand, 1.0)
    changed = FACTS | {"sw.torch": "3.0"}
    leases = [turn(hand, 2.0, facts=changed) for _ in range(8)]
    own = [lease for lease in leases if lease.job_id == first.job_id]
    assert [lease.measured for lease in own] == [1, 0, 1, 2]
    result = client.get(f"/api/v1/results/{job_of(client, first)['result_id']}").json()["result"]
    assert result["samples"][0]["values"] == [2.0, 2.0, 2.0]
    assert sound(client)


def test_a_job_that_begins_anew_measures_its_first_process_again(
    client: TestClient, hand: Hand
) -> None:
    """It alone has the passes beside timing, an empty cache and the first seed."""
    put(client, WORKLOADS[:2], protocol={"replicates": 3, "parity": True})
    first = turn(hand)
    told: list[tuple[int, bool]] = []
    while (lease := hand.claim()) is not None:
        protocol = lease.spec.protocol.of_replicate(lease.measured + 1)
        if lease.job_id == first.job_id:
            told.append((lease.measured, protocol.parity))
        parity = Parity(status=ParityStatus.PASS) if protocol.parity else None
        facts = FACTS | {"sw.driver": "2"} if lease.job_id == first.job_id else FACTS
        step = Sample(
            metric="first_step_time",
            unit="s",
            direction=Direction.LOWER,
            values=(3.0 if lease.measured else 30.0,),
        )
        own = one(lease, facts=facts, protocol=protocol, parity=parity)
        result = own.model_copy(update={"samples": (*own.samples, step)})
        assert hand.post(lease, result).status_code == 201
    assert told == [(1, False), (0, True), (1, False), (2, False)]
    job = job_of(client, first)
    assert "the job begins anew" in job["attempts"][1]["reason"]
    assert [attempt["state"] for attempt in job["attempts"]] == ["succeeded"] * 5
    result = client.get(f"/api/v1/results/{job['result_id']}").json()["result"]
    assert (result["parity"]["status"], result["protocol"]["parity"]) == ("pass", True)
    values = {sample["metric"]: sample["values"] for sample in result["samples"]}
    assert values["first_step_time"] == [30.0]
    assert values["first_step_time_warm"] == [3.0, 3.0]
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.reading() as session:
        kept = select(ResultRow).where(ResultRow.job_id == first.job_id)
        assert len(session.scalars(kept).all()) == 6  # each that was posted, and the whole
    assert sound(client)


def test_a_job_whose_environment_changes_with_every_process_ends_and_says_what_differs(
    client: TestClient, hand: Hand
) -> None:
    put(client, WORKLOADS[:2])
    first = turn(hand)
    turn(hand)
    for number in range(2, 30):
        lease = hand.claim()
        if lease is None:
            break
        facts = {**FACTS, "sw.data": f"d{number}"} if lease.job_id == first.job_id else FACTS
        assert hand.post(lease, one(lease, facts=facts)).status_code == 201
    job = job_of(client, first)
    assert (job["state"], len(job["attempts"])) == ("failed", 1 + interleave.MOST_CHANGES)
    assert job["attempts"][-1]["state"] == "failed"
    assert "Its environment differs from process to process: sw.data (d" in job["reason"]
    told = client.get(f"/api/v1/results/{job['result_id']}").json()
    assert (told["result"]["status"], told["counted"]) == ("infra_error", True)
    other = client.get("/api/v1/series", params={"workload": WORKLOADS[0]}).json()["items"]
    assert other == []
    counts = client.get("/api/v1/submissions").json()["items"][0]["counts"]
    assert counts == {"succeeded": 1, "failed": 1}
    assert sound(client)


def test_a_restless_job_of_long_names_ends_with_one_line_that_can_be_read(
    client: TestClient, hand: Hand
) -> None:
    submitted = put(client, WORKLOADS[:2])
    first = turn(hand)
    number = 1
    while (lease := hand.claim()) is not None:
        number += 1
        long = {f"sw.env.{'LONG_NAME_' * 9}{k}": f"{number:04}{'x' * 60}" for k in range(4)}
        facts = {**FACTS, **long} if lease.job_id == first.job_id else FACTS
        assert hand.post(lease, one(lease, facts=facts)).status_code == 201
    job = job_of(client, first)
    assert job["state"] == "failed"
    assert len(job["reason"]) == 500
    assert client.get(f"/api/v1/results/{job['result_id']}").status_code == 200
    assert client.get(f"/runs/{job['result_id']}").status_code == 200
    assert client.get(f"/api/v1/submissions/{submitted['id']}/report").status_code == 200


def test_a_last_turn_of_another_environment_that_is_posted_twice_ends_its_job_once(
    client: TestClient, hand: Hand
) -> None:
    put(client, WORKLOADS[:2])
    held: dict[str, list[Lease]] = {}
    for number in range(12):
        lease = hand.claim()
        if lease is None:
            break
        own = held.setdefault(lease.spec.case.workload, [])
        own.append(lease)
        told = one(lease, facts={**FACTS, "sw.data": f"d{number}"})
        answers = [hand.post(lease, told) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 200]
        assert answers[0].json()["counted"] == answers[1].json()["counted"] is True
    assert {len(leases) for leases in held.values()} == {1 + interleave.MOST_CHANGES}
    assert sound(client)


def test_an_environment_that_changes_and_stays_costs_a_new_beginning_and_no_more(
    client: TestClient, hand: Hand
) -> None:
    put(client, WORKLOADS[:2])
    told: list[Lease] = []
    while (lease := hand.claim()) is not None:
        driver = 1 + (len(told) >= 2) + (len(told) >= 6)
        own = one(lease, facts=FACTS | {"sw.driver": str(driver)})
        assert hand.post(lease, own).status_code == 201
        told.append(lease)
    assert len(told) <= 2 * (3 + 2 * 3)  # of each job what was measured before a change is lost
    assert {job_of(client, lease)["state"] for lease in told} == {"succeeded"}
    assert sound(client)


def test_a_turn_that_fails_ends_its_job_and_no_other(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    leases = [turn(hand) for _ in range(3)]
    failed = turn(hand, status=Status.OOM, reason="It does not fit.")
    assert failed.job_id == leases[-1].job_id
    job = job_of(client, failed)
    assert (job["state"], job["reason"]) == ("failed", "It does not fit.")
    assert [turn(hand).spec.case.workload for _ in range(4)].count("unet") == 0
    assert sound(client)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (Status.TIMEOUT, "failed"),
        (Status.CRASHED, "failed"),
        (Status.GARBAGE, "failed"),
        (Status.INFRA_ERROR, "failed"),
        (Status.CANCELLED, "cancelled"),
    ],
)
def test_a_later_turn_that_left_nothing_behind_ends_its_job(
    client: TestClient, hand: Hand, submitted: Told, status: Status, state: str
) -> None:
    first = [turn(hand) for _ in range(3)][-1]
    lease = hand.must_claim()
    assert (lease.job_id, lease.spec.case.preset) == (first.job_id, "auto")
    run = Run(lease.spec, lease.measured + 1, None, datetime.now(UTC), 0)
    told = failure(run, status, "Nothing came of it.", "the end of its log")
    assert [hand.post(lease, told).status_code for _ in range(2)] == [201, 200]
    job = job_of(client, lease)
    assert (job["state"], job["reason"]) == (state, "Nothing came of it.")
    kept = client.get(f"/api/v1/results/{job['result_id']}").json()["result"]
    assert (kept["status"], kept["case"]["preset"]) == (status.value, "tiny")
    assert (kept["environment"]["facts"], kept["log_tail"]) == (FACTS, "the end of its log")
    assert turn(hand).job_id != lease.job_id
    assert sound(client)


def test_a_later_turn_of_another_preset_is_refused(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    first = [turn(hand) for _ in range(3)][-1]
    lease = hand.must_claim()
    assert lease.job_id == first.job_id
    mixed = one(lease, case=Case(workload=lease.spec.case.workload, preset="full"))
    answer = hand.post(lease, mixed)
    assert (answer.status_code, answer.json()["type"]) == (422, "invalid")
    assert "another preset" in answer.json()["detail"]
    assert hand.post(lease, one(lease)).status_code == 201
    assert sound(client)


@pytest.mark.parametrize("held", [False, True])
def test_a_job_can_be_cancelled_between_its_turns_and_during_one(
    client: TestClient, hand: Hand, submitted: Told, held: bool
) -> None:
    begun = [turn(hand) for _ in range(3)][-1]
    lease = hand.must_claim() if held else None
    assert client.post(f"/api/v1/jobs/{begun.job_id}/cancel").is_success
    if lease is not None:
        assert lease.job_id == begun.job_id
        hand.post(lease, one(lease))
    assert job_of(client, begun)["state"] == "cancelled"
    assert begun.job_id not in {turn(hand).job_id for _ in range(4)}
    assert sound(client)


def test_a_case_by_itself_has_nobody_to_take_turns_with(client: TestClient, hand: Hand) -> None:
    put(client, ["unet"])
    lease = hand.must_claim()
    assert not lease.spec.in_turn
    assert hand.post(lease, result_of(lease)).status_code == 201
    assert job_of(client, lease)["state"] == "succeeded"


def test_a_worker_that_measured_the_whole_job_at_once_has_finished_it(
    client: TestClient, hand: Hand, submitted: Told
) -> None:
    lease = hand.must_claim()
    assert hand.post(lease, result_of(lease, (1.0, 2.0, 3.0))).status_code == 201
    assert job_of(client, lease)["state"] == "succeeded"


def test_a_job_that_had_no_turn_stands_in_the_order_of_submission(
    client: TestClient, submitted: Told
) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.reading() as session:
        assert all(job.place == job.id for job in session.query(Job))
