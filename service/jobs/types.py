"""The values that the queue takes and returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from benchmarks.contracts import JobSpec
from service.history.types import Origin


@dataclass(frozen=True, slots=True)
class Terms:
    """For how long a worker holds a job, and how often it may be lost."""

    lease: timedelta
    heartbeat: timedelta
    max_lost_attempts: int
    turn_patience: timedelta = timedelta(minutes=15)
    """How long a job that has had a turn waits for a worker that nobody hears of."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The credentials for an attempt: its place, and the secret that only its worker knows."""

    job_id: str
    number: int
    secret: str
    worker: str | None = None
    """The only worker that the writer may be; None if no token says."""


@dataclass(frozen=True, slots=True)
class Held:
    """An attempt, locked, and its job."""

    holder: Holder
    """Without a word of whose token it is."""
    worker: str
    state: str
    spec: JobSpec
    revision: str
    submission_id: str
    position: int
    turns: int
    project: str
    requires: str
    """The digest of its requirement set."""

    @property
    def origin(self) -> Origin:
        """Return the origin of the attempt's results."""
        return Origin(
            job_id=self.holder.job_id,
            attempt=self.holder.number,
            worker=self.worker,
            revision=self.revision,
            purpose=self.spec.purpose,
            project=self.project,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """The outcome of posting a result."""

    result_id: str
    counted: bool
    """Whether it was taken: it counts, or is one turn of a job that goes on."""
    created: bool
    """False if the same result was here before."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The number of jobs that a sweep moved to each state."""

    requeued: int = 0
    quarantined: int = 0
    cancelled: int = 0
