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
    patience: timedelta = timedelta(minutes=15)
    """How long the replicates of a case wait for the worker that began them."""


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

    origin: Origin
    state: str
    spec: JobSpec
    comparison_id: str | None
    """The comparison that the job belongs to, if any."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The outcome of posting a result."""

    result_id: str
    counted: bool
    """False: it came too late, and is kept."""
    created: bool
    """False if the same result was here before."""
    comparison_id: str | None = None
    """The comparison that it moves on."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The number of jobs that a sweep moved to each state."""

    requeued: int = 0
    quarantined: int = 0
    cancelled: int = 0
