"""A simulated team: nightly runs over some workers, with a truth that tests know.

Jobs travel through the real queue; only what a measurement says is made up.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from builders.history_plans import GPU_FACTS
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import (
    Case,
    Claim,
    Direction,
    Environment,
    JobSpec,
    JobState,
    Lease,
    Protocol,
    Purpose,
    Result,
    Sample,
    Status,
    Worker,
)
from service import comparisons
from service.database.session import Database, now_of
from service.findings import confirm, pipeline
from service.jobs import attempts, leases, submit, workers
from service.jobs.requests import SubmissionRequest
from service.jobs.types import Holder, Terms
from service.models import Job

START = datetime(2026, 3, 1, 2, tzinfo=UTC)
TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
NOISE = 0.003
"""Standard deviation between processes."""
Speed = Callable[[Case, int, str, int], float]
"""Items per second of a case at a revision (its number), on a worker, in a night."""
Facts = Callable[[int], dict[str, str]]
"""Facts of the environment on a night, beside the hardware's and the revision's own."""
Factor = Callable[[JobSpec, str, str], float]
"""What a job's values of a metric are multiplied with, on a worker."""


def name_of(number: int) -> str:
    return f"r{number:02d}"


PROCESSES = 3
"""Of a case in a night; they come in one result, which costs a third of one result each."""
METRICS = ("throughput", "step_time", "peak_memory")


@dataclass
class Team:
    """Workers that measure whatever the queue hands out."""

    database: Database
    speed: Speed
    facts: Facts = lambda _night: {}
    names: Sequence[str] = ("a", "b", "c", "d")
    seed: int = 1
    checkouts: bool = True
    """Whether a worker runs the revision that a job asks for, or what is installed that night."""
    daily: int = 1_000
    """Suspicions that may be measured again in a day."""
    cases: Sequence[Case] = field(kw_only=True)
    factor: Factor = lambda _spec, _worker, _metric: 1.0
    metrics: Collection[str] = METRICS
    """Metrics of a result. Each costs as much as another history."""
    gpus: Mapping[str, str] = field(default_factory=dict)
    """The GPU of each worker, where they differ: each of them then has every night for itself."""
    measured: int = 0
    night_now: int = 0
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def night(self, number: int, code: int | None = None) -> list[str]:
        """Measure revision ``number`` and whatever that leads to; ids of findings opened.

        ``code`` is the revision where no newer one was made that day.
        """
        self.night_now = number
        revision = number if code is None else code
        for requires in [{"worker": name} for name in self.gpus] or [{}]:
            with self.database.writing() as session:
                request = SubmissionRequest(
                    cases=tuple(self.cases),
                    revision=name_of(revision),
                    revision_at=START + timedelta(days=revision),
                    revision_author="Ada",
                    revision_title=f"Change {revision}",
                    protocol=Protocol(),
                    requires=requires,
                )
                submit.submit(session, request, now_of(session))
        opened: list[str] = []
        for worker in self.names:
            self._introduce(worker)
        while self._work():
            list(comparisons.advance_after(self.database, ""))
            opened += confirm.follow_all(self.database)
            while (looked := pipeline.look(self.database, self.daily)).notes:
                opened += looked.opened
            list(comparisons.advance_after(self.database, ""))
        return opened

    def _work(self) -> int:
        """Let the workers take turns until the queue is empty."""
        done = 0
        idle = 0
        while idle < len(self.names):
            order = self.random.permutation(len(self.names))
            waits = self._waits()
            idle = sum(not (waits and self._one(self.names[place])) for place in order)
            done += len(self.names) - idle
        return done

    def _waits(self) -> bool:
        """Say if any job waits; to ask costs less than for each worker to find none."""
        with self.database.reading() as session:
            queued = select(Job.id).where(Job.state == JobState.QUEUED).limit(1)
            return session.scalar(queued) is not None

    def _introduce(self, worker: str) -> None:
        with self.database.writing() as session:
            introduced = Worker(name=worker, labels={"device": "cuda", "worker": worker})
            workers.introduce(session, introduced, now_of(session))

    def _one(self, worker: str) -> bool:
        with self.database.writing() as session:
            now = now_of(session)
            claim = Claim(worker=worker, claim_id=secrets.token_hex(16))
            lease = leases.lease(session, claim, TERMS, now)
            if lease is None:
                return False
            self._complete(session, lease, worker, now)
            return True

    def _complete(self, session: Session, lease: Lease, worker: str, now: datetime) -> None:
        holder = Holder(lease.job_id, lease.attempt, lease.secret)
        attempts.start(session, holder, TERMS, now)
        attempts.complete(session, holder, self._result(lease, worker, now), now)
        self.measured += 1

    def _result(self, lease: Lease, worker: str, now: datetime) -> Result:
        spec = lease.spec
        code = int(spec.revision[1:]) if self.checkouts else self.night_now
        count = PROCESSES if spec.purpose is Purpose.HISTORY else 1
        level = self.speed(spec.case, code, worker, self.night_now)
        rates = level * np.exp(self.random.normal(0, NOISE, count))
        samples = (
            _sample("throughput", "img/s", Direction.HIGHER, rates),
            _sample("step_time", "s", Direction.LOWER, 32 / rates),
            _sample("peak_memory", "B", Direction.LOWER, np.full(count, 2.0**30)),
        )
        return Result(
            case=spec.case,
            status=Status.OK,
            measured_at=now,
            protocol=spec.protocol,
            item="img",
            environment=Environment(
                facts=GPU_FACTS
                | {"hw.host": worker, "hw.gpu.uuid": f"GPU-{worker}"}
                | ({"hw.gpu.name": self.gpus[worker]} if self.gpus else {})
                | {"sw.benchmarks": f"code-{code}"}
                | self.facts(self.night_now)
            ),
            samples=tuple(
                _times(sample, self.factor(spec, worker, sample.metric))
                for sample in samples
                if sample.metric in self.metrics
            ),
        )


def _sample(metric: str, unit: str, direction: Direction, values: np.ndarray) -> Sample:
    return Sample(
        metric=metric, unit=unit, direction=direction, values=tuple(float(v) for v in values)
    )


def _times(sample: Sample, factor: float) -> Sample:
    return sample.model_copy(update={"values": tuple(v * factor for v in sample.values)})
