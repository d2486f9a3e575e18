"""The queue against a plain model of it, on both databases, with a clock that only tests move.

Hypothesis chooses what clients and time do; the model says in a few lines what must come of it. At
the end the database's promises are checked too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from builders.service_hand import result_of
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from benchmarks.contracts import Case, Claim, Heartbeat, Lease, Status, Worker
from service.database.session import Database
from service.jobs import attempts as jobs_attempts
from service.jobs import expiry, workers
from service.jobs import leases as jobs_leases
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.jobs.types import Holder, Terms
from service.maintenance.verify.invariants import check
from service.models import Attempt, Job, ResultRow
from service.schemas.errors import Conflict, Fenced
from trials.chaos import mutants

pytestmark = pytest.mark.both_databases

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
START = datetime(2026, 11, 20, 10, tzinfo=UTC)
CREW = ("w1", "w2", "w3")
LIVE = ("granted", "started")


@dataclass
class Held:
    """What the model knows of one attempt."""

    job: str
    number: int
    worker: str
    ends: datetime
    state: str = "granted"
    results: dict[str, bool] = field(default_factory=dict)
    """By what was sent: whether it counts."""


@dataclass
class Known:
    """What the model knows of one job."""

    state: str = "queued"
    lost: int = 0
    cancelled: bool = False
    attempts: list[Held] = field(default_factory=list)


class QueueModel(RuleBasedStateMachine):
    """Three workers, one of which may do anything at any time with any lease that it ever had."""

    leases = Bundle("leases")
    claims = Bundle("claims")

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.session = database.session(write=True)
        self.now = START
        self.jobs: dict[str, Known] = {}
        self.claimed: dict[str, Held] = {}
        self.drawn = 0
        self.told: Any = None

    @initialize()
    def crew(self) -> None:
        for name in CREW:
            workers.introduce(self.session, Worker(name=name), self.now)

    @rule(count=st.integers(1, 3))
    def submit(self, count: int) -> None:
        asked = SubmissionRequest(cases=(Case(workload="unet"),) * count, revision="r")
        submit(self.session, asked, self.now)
        known = set(self.jobs)
        for job in self.session.scalars(select(Job.id).order_by(Job.id)):
            if job not in known:
                self.jobs[job] = Known()

    @rule(seconds=st.sampled_from([1, 20, 45, 59, 61, 200]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(target=claims, worker=st.sampled_from(CREW))
    def draw_claim(self, worker: str) -> Claim:
        self.drawn += 1
        return Claim(worker=worker, claim_id=f"{self.drawn:032x}")

    @rule(target=leases, claim=claims)
    def claim(self, claim: Claim) -> tuple[Lease, Held] | None:
        lease = jobs_leases.lease(self.session, claim, TERMS, self.now)
        before = self.claimed.get(claim.claim_id)
        if before is not None:
            assert lease is not None
            assert (lease.job_id, lease.attempt) == (before.job, before.number)
            if before.state in LIVE:
                before.ends = self.now + TERMS.lease
            return lease, before
        if lease is None:
            assert not self._welcome(claim.worker)
            return None
        job = self.jobs[lease.job_id]
        assert job.state == "queued"
        assert lease.attempt == len(job.attempts) + 1
        held = Held(lease.job_id, lease.attempt, claim.worker, self.now + TERMS.lease)
        job.state = "leased"
        job.attempts.append(held)
        self.claimed[claim.claim_id] = held
        return lease, held

    def _welcome(self, worker: str) -> bool:
        """Whether a queued job never was with ``worker``: then it must have got one."""
        return any(
            job.state == "queued" and worker not in {held.worker for held in job.attempts}
            for job in self.jobs.values()
        )

    @rule(leased=leases)
    def start(self, leased: tuple[Lease, Held] | None) -> None:
        for holder, held, job in self._of(leased):
            if self._fenced(
                held, partial(jobs_attempts.start, self.session, holder, TERMS, self.now)
            ):
                continue
            held.state, held.ends = "started", self.now + TERMS.lease
            job.state = "running"

    @rule(leased=leases)
    def beat(self, leased: tuple[Lease, Held] | None) -> None:
        for holder, held, job in self._of(leased):
            renew = partial(
                jobs_attempts.heartbeat, self.session, holder, Heartbeat(), TERMS, self.now
            )
            if not self._fenced(held, renew):
                assert self.told.cancel is job.cancelled
                held.ends = self.now + TERMS.lease

    @rule(leased=leases, value=st.integers(1, 2), good=st.booleans())
    def post(self, leased: tuple[Lease, Held] | None, value: int, good: bool) -> None:
        for holder, held, job in self._of(leased):
            assert leased is not None
            status = Status.OK if good else Status.OOM
            result = result_of(leased[0], (float(value), 2.0), status=status)
            name = f"{status}{value if good else ''}"
            if any(held.results.values()) and name not in held.results:
                with pytest.raises(Conflict):
                    jobs_attempts.complete(self.session, holder, result, self.now)
                continue
            told = jobs_attempts.complete(self.session, holder, result, self.now)
            live = held.state in LIVE
            assert told.created is (name not in held.results)
            assert told.counted is held.results.setdefault(name, live)
            if live:
                held.state, job.state = (("succeeded",) * 2) if good else (("failed",) * 2)

    @rule(leased=leases)
    def forge(self, leased: tuple[Lease, Held] | None) -> None:
        for holder, *_ in self._of(leased):
            forged = Holder(holder.job_id, holder.number, "0" * 64)
            with pytest.raises(Fenced):
                jobs_attempts.heartbeat(self.session, forged, Heartbeat(), TERMS, self.now)
            assert leased is not None
            with pytest.raises(Fenced):
                jobs_attempts.complete(self.session, forged, result_of(leased[0]), self.now)

    @rule(leased=consumes(leases))
    def release(self, leased: tuple[Lease, Held] | None) -> None:
        for holder, held, job in self._of(leased):
            if self._fenced(
                held, partial(jobs_attempts.release, self.session, holder, "", self.now)
            ):
                continue
            held.state = "rejected"
            job.state = "cancelled" if job.cancelled else "queued"

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if not self.jobs:
            return
        name = data.draw(st.sampled_from(sorted(self.jobs)))
        expiry.cancel(self.session, name, self.now)
        job = self.jobs[name]
        if job.state == "queued":
            job.state = "cancelled"
        elif job.state in ("leased", "running"):
            job.cancelled = True

    @rule()
    def sweep(self) -> None:
        expiry.sweep(self.session, TERMS, self.now)
        for job in self.jobs.values():
            for held in job.attempts:
                if held.state in LIVE and held.ends < self.now:
                    self._lose(job, held)

    def _lose(self, job: Known, held: Held) -> None:
        held.state = "lost"
        if job.cancelled:
            job.state = "cancelled"
            return
        job.lost += 1
        job.state = "quarantined" if job.lost >= TERMS.max_lost_attempts else "queued"

    @rule()
    def restart(self) -> None:
        expiry.extend_all_leases(self.session, TERMS, self.now)
        for job in self.jobs.values():
            for held in job.attempts:
                if held.state in LIVE:
                    held.ends = self.now + TERMS.lease

    @invariant()
    def the_rows_are_the_models(self) -> None:
        self.session.expire_all()
        rows = self.session.execute(select(Job.id, Job.state, Job.lost_attempts, Job.attempt))
        found = {row.id: (row.state, row.lost_attempts, row.attempt) for row in rows}
        assert found == {
            name: (job.state, job.lost, len(job.attempts)) for name, job in self.jobs.items()
        }
        held = select(Attempt.job_id, Attempt.number, Attempt.state, Attempt.lease_expires_at)
        attempts = {(row[0], row[1]): tuple(row[2:]) for row in self.session.execute(held)}
        for job in self.jobs.values():
            for each in job.attempts:
                state, ends = attempts.pop((each.job, each.number))
                assert state == each.state
                assert each.state not in LIVE or ends == each.ends
        assert attempts == {}

    def teardown(self) -> None:
        try:
            counted = select(ResultRow.job_id).where(ResultRow.counted)
            wanted = [
                held.job
                for job in self.jobs.values()
                for held in job.attempts
                if any(held.results.values())
            ]
            assert sorted(self.session.scalars(counted)) == sorted(wanted)
            report = check(self.session)
            assert report.kept, [each.sentence for each in report.findings]
        finally:
            self.session.rollback()
            self.session.close()

    def _of(self, leased: tuple[Lease, Held] | None) -> Iterator[tuple[Holder, Held, Known]]:
        if leased is not None:
            lease, held = leased
            holder = Holder(lease.job_id, lease.attempt, lease.secret)
            yield holder, held, self.jobs[held.job]

    def _fenced(self, held: Held, call: Any) -> bool:
        """Do what only the holder of a live attempt may; say whether it was refused, as it must."""
        if held.state in LIVE:
            self.told = call()
            return False
        with pytest.raises(Fenced):
            call()
        return True


@pytest.mark.parametrize("examples", [5, pytest.param(15, marks=pytest.mark.slow)])
def test_the_queue_does_what_its_model_does(database: Database, examples: int) -> None:
    profile = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: QueueModel(database), settings=profile)


def test_the_model_notices_a_sweep_without_its_guard(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutants.apply("sweep guard", monkeypatch.setattr)
    database = Database(sqlite_url)
    profile = settings(
        max_examples=100,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # the first that shows it is enough
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(lambda: QueueModel(database), settings=profile)
    database.close()
