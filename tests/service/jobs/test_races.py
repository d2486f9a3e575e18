"""Many sessions at once on one database: each promise holds once."""

import secrets
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from builders.service_hand import result_of
from sqlalchemy import func, select, update

from benchmarks.contracts import Case, Claim, Heartbeat, JobState, Lease, Status, Worker
from service.database.session import Database, now_of
from service.jobs import attempts, expiry, leases, transitions, types, workers
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.jobs.types import Holder, Terms
from service.maintenance.verify import verify
from service.models import Attempt, Job, Point, ResultRow
from service.schemas.errors import Fenced

pytestmark = pytest.mark.both_databases

T = TypeVar("T")
TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)


def at_once(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Call from one thread each, started together; give what they returned or raised."""
    gate = threading.Barrier(len(calls))
    outcomes: list[T | Exception] = []

    def run(call: Callable[[], T]) -> None:
        gate.wait()
        try:
            outcomes.append(call())
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.fixture
def crew(database: Database) -> list[str]:
    """Eight workers."""
    names = [f"w{number}" for number in range(8)]
    with database.writing() as session:
        for name in names:
            workers.introduce(session, Worker(name=name), now_of(session))
    return names


def put_jobs(database: Database, count: int) -> None:
    cases = (Case(workload="unet"),) * count
    with database.writing() as session:
        submit(session, SubmissionRequest(cases=cases, revision="r1"), now_of(session))


def lease(database: Database, worker: str, claim_id: str | None = None) -> Lease | None:
    claim = Claim(worker=worker, claim_id=claim_id or secrets.token_hex(16))
    with database.writing() as session:
        return leases.lease(session, claim, TERMS, now_of(session))


def must_lease(database: Database, worker: str) -> tuple[Lease, Holder]:
    granted = lease(database, worker)
    assert granted is not None
    return granted, Holder(granted.job_id, granted.attempt, granted.secret)


def test_a_worker_that_introduces_itself_twice_at_once_is_one(database: Database) -> None:
    def introduce() -> None:
        with database.writing() as session:
            workers.introduce(session, Worker(name="twice"), now_of(session))

    assert at_once([introduce] * 6) == [None] * 6


def test_workers_that_race_for_one_job_get_it_once(database: Database, crew: list[str]) -> None:
    put_jobs(database, 1)
    outcomes = at_once([lambda name=name: lease(database, name) for name in crew])  # type: ignore[misc]
    assert [type(each) for each in outcomes if each is not None] == [Lease]
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Attempt)) == 1


def test_workers_that_race_for_many_jobs_get_different_ones(
    database: Database, crew: list[str]
) -> None:
    put_jobs(database, len(crew))
    outcomes = at_once([lambda name=name: lease(database, name) for name in crew])  # type: ignore[misc]
    assert not [each for each in outcomes if isinstance(each, Exception)]
    taken = [each.job_id for each in outcomes if isinstance(each, Lease)]
    assert len(set(taken)) == len(taken)
    while lease(database, crew[0]) is not None:  # a skipped row is not a lost row
        taken.append("")
    assert len(taken) == len(crew)


def test_claims_that_meet_get_the_same_lease(database: Database, crew: list[str]) -> None:
    put_jobs(database, 4)
    outcomes = at_once([lambda: lease(database, crew[0], "c" * 32)] * 4)
    assert len({str(each) for each in outcomes}) == 1
    assert isinstance(outcomes[0], Lease)


def test_a_result_that_is_posted_twice_at_once_counts_once(
    database: Database, crew: list[str]
) -> None:
    put_jobs(database, 1)
    granted, holder = must_lease(database, crew[0])

    def post() -> types.Completion:
        with database.writing() as session:
            return attempts.complete(session, holder, result_of(granted), now_of(session))

    outcomes = at_once([post] * 4)
    assert not [each for each in outcomes if isinstance(each, Exception)], outcomes
    assert len({each.result_id for each in outcomes if isinstance(each, types.Completion)}) == 1
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(ResultRow)) == 1


def test_a_result_and_the_sweep_agree_on_one_end(database: Database, crew: list[str]) -> None:
    put_jobs(database, 1)
    granted, holder = must_lease(database, crew[0])

    def post() -> object:
        with database.writing() as session:
            return attempts.complete(session, holder, result_of(granted), now_of(session))

    def sweep() -> object:
        with database.writing() as session:
            return expiry.sweep(session, TERMS, now_of(session) + timedelta(hours=1))

    outcomes = at_once([post, sweep, sweep])
    assert not [each for each in outcomes if isinstance(each, Exception)], outcomes
    counted = next(each.counted for each in outcomes if isinstance(each, types.Completion))
    with database.reading() as session:
        state = session.scalar(select(Job.state))
    assert state == (JobState.SUCCEEDED if counted else JobState.QUEUED)


def test_sweeps_that_meet_lose_an_attempt_once(database: Database, crew: list[str]) -> None:
    put_jobs(database, 3)
    for name in crew[:3]:
        must_lease(database, name)

    def sweep() -> types.Swept:
        with database.writing() as session:
            return expiry.sweep(session, TERMS, now_of(session) + timedelta(hours=1))

    outcomes = at_once([sweep] * 4)
    assert sum(each.requeued for each in outcomes if isinstance(each, types.Swept)) == 3
    with database.reading() as session:
        assert session.scalars(select(Job.lost_attempts)).all() == [1, 1, 1]


def test_a_cancel_is_not_lost_to_a_release_that_meets_it(
    database: Database, crew: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_jobs(database, 1)
    _, holder = must_lease(database, crew[0])

    def release() -> None:
        with database.writing() as session:
            attempts.release(session, holder, "The worker stops.", now_of(session))

    releasing = threading.Thread(target=release)

    def meet(*seen: Any, **values: Any) -> bool:
        changed = change(*seen, **values)
        if releasing.ident is None:
            releasing.start()
            releasing.join(0.5)  # if it may, it ends between the cancel's two steps
        return changed

    change = transitions.change
    monkeypatch.setattr(transitions, "change", meet)
    with database.writing() as session:
        expiry.cancel(session, holder.job_id, now_of(session))
    releasing.join()
    with database.reading() as session:
        assert session.scalar(select(Job.state)) == JobState.CANCELLED


def test_a_heartbeat_is_no_longer_heard_after_the_sweep(
    database: Database, crew: list[str]
) -> None:
    put_jobs(database, 1)
    _, holder = must_lease(database, crew[0])
    with database.writing() as session:
        expiry.sweep(session, TERMS, now_of(session) + timedelta(hours=1))
    with database.writing() as session, pytest.raises(Fenced):
        attempts.heartbeat(session, holder, Heartbeat(), TERMS, now_of(session))


def test_a_restart_forgives_leases_that_ran_out_meanwhile(
    database: Database, crew: list[str]
) -> None:
    put_jobs(database, 1)
    _, holder = must_lease(database, crew[0])
    with database.writing() as session:
        later = now_of(session) + timedelta(hours=1)
        assert expiry.extend_all_leases(session, TERMS, later) == 1
        assert expiry.sweep(session, TERMS, later + TERMS.lease) == types.Swept()
        attempts.heartbeat(session, holder, Heartbeat(), TERMS, later + TERMS.lease)
        swept = expiry.sweep(session, TERMS, later + TERMS.lease * 2 + timedelta(seconds=1))
    assert swept == types.Swept(requeued=1)


def test_one_gpu_is_given_one_job_at_a_time(database: Database) -> None:
    put_jobs(database, 8)
    names = [f"g{number}" for number in range(6)]
    with database.writing() as session:
        for name in names:
            gpu = {"gpu_uuid": f"GPU-{int(name[1:]) % 2}"}
            workers.introduce(session, Worker(name=name, labels=gpu), now_of(session))
    outcomes = at_once([lambda name=name: lease(database, name) for name in names])  # type: ignore[misc]
    assert not [each for each in outcomes if isinstance(each, Exception)], outcomes
    granted = [each for each in outcomes if isinstance(each, Lease)]
    assert len(granted) == 2
    assert lease(database, names[0]) is None
    for each in granted:
        with database.writing() as session:
            holder = Holder(each.job_id, each.attempt, each.secret)
            attempts.release(session, holder, "", now_of(session))
    assert lease(database, names[0]) is not None


def spread(database: Database, revision: str, crew: Sequence[str]) -> list[tuple[Lease, Holder]]:
    """Let each of three workers hold one replicate of a case."""
    with database.writing() as session:
        case = Case(workload="unet")
        request = SubmissionRequest(case=case, revision=revision, replicates=3)
        submit(session, request, now_of(session))
    held = []
    for worker in crew[:3]:
        held.append(must_lease(database, worker))
        with database.writing() as session:
            session.execute(update(Job).values(kept_for=None))
    return held


def test_of_last_replicates_that_come_at_once_one_makes_the_points(
    database: Database, crew: list[str]
) -> None:
    for number in range(4):
        held = spread(database, f"r{number}", crew)

        def complete(each: tuple[Lease, Holder]) -> None:
            with database.writing() as session:
                result = result_of(each[0], (1.0,))
                attempts.complete(session, each[1], result, now_of(session))

        outcomes = at_once([partial(complete, each) for each in held])
        assert outcomes == [None] * 3
        with database.reading() as session:
            points = session.scalar(select(func.count()).where(Point.revision == f"r{number}"))
        assert points == 3, "one of each worker"


def test_a_case_that_is_ended_from_all_sides_at_once_ends(
    database: Database, crew: list[str]
) -> None:
    for number in range(6):
        held = spread(database, f"r{number}", crew)
        with database.writing() as session:
            attempts.release(session, held[0][1], "", now_of(session))

        def fail(each: tuple[Lease, Holder]) -> None:
            with database.writing() as session:
                result = result_of(each[0], status=Status.OOM, reason="It does not fit.")
                attempts.complete(session, each[1], result, now_of(session))

        def cancel(each: tuple[Lease, Holder]) -> None:
            with database.writing() as session:
                expiry.cancel(session, each[1].job_id, now_of(session))

        calls: list[Callable[[], object]] = [partial(fail, each) for each in held[1:]]
        calls += [partial(cancel, held[0]), partial(lease, database, crew[4])]
        outcomes = at_once(calls)
        assert not [one for one in outcomes if isinstance(one, Exception)]
        given = [one for one in outcomes if isinstance(one, Lease)]
        with database.reading() as session:
            states = session.scalars(select(Job.state).where(Job.revision == f"r{number}")).all()
        assert sorted(states)[1:] == ["failed"] * 2 or given
        for one in given:  # it was granted before the others ended: its worker is told
            holder = Holder(one.job_id, one.attempt, one.secret)
            with database.writing() as session:
                attempts.release(session, holder, "", now_of(session))
    assert verify(database).kept
