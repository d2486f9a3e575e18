"""Jobs, submissions, workers and schedules, as the API answers with them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from benchmarks import contracts
from service.schemas.document import Document

T = TypeVar("T")


class Listing(Document, Generic[T]):
    """Some items, and the cursor that gives the next ones; null at the end."""

    items: list[T]
    next_cursor: str | None


class AttemptView(Document):
    """One worker's hold on a job."""

    number: int
    worker: str
    state: contracts.AttemptState
    granted_at: datetime
    started_at: datetime | None
    lease_expires_at: datetime
    ended_at: datetime | None
    reason: str
    progress: contracts.Progress | None
    log_tail: str | None
    """The end of its child's log so far; null once there is a result, which has it."""


class JobView(Document):
    """One process that measures a case, and where it stands."""

    id: str
    submission_id: str
    position: int
    """The place of its case in the submission."""
    group_id: str
    """The first job of its case: each replicate of a case is a job."""
    replicate: int
    replicates: int
    """It is replicate 1, 2, ... of so many."""
    case: contracts.Case
    project: str
    """Empty: it belongs to none."""
    revision: str
    suite: str | None
    purpose: contracts.Purpose
    state: contracts.JobState
    attempt: int
    """Number of the latest attempt; 0 before the first."""
    lost_attempts: int
    cancel_requested: bool
    reason: str
    requires: dict[str, str]
    priority: int
    timeout_s: float
    rerun_of: str | None
    created_at: datetime
    queued_at: datetime
    finished_at: datetime | None
    result_id: str | None
    """The counted result."""
    attempts: list[AttemptView]

    @property
    def worker(self) -> str | None:
        """The worker of the last attempt, if there was one."""
        return self.attempts[-1].worker if self.attempts else None

    @property
    def progress(self) -> contracts.Progress | None:
        """The progress of the last attempt, if there was one."""
        return self.attempts[-1].progress if self.attempts else None

    @property
    def log_tail(self) -> str | None:
        """The end of the log of the last attempt, while it runs."""
        return self.attempts[-1].log_tail if self.attempts else None


class SubmissionSummary(Document):
    """A submission as a list shows it."""

    id: str
    suite: str | None
    project: str
    """Empty: it belongs to none."""
    revision: str
    source: str
    created_at: datetime
    finished: bool
    """Whether every job has come to an end."""
    counts: dict[str, int]
    """How many cases are in each state: a failed replicate makes a failed case."""


class SubmissionView(SubmissionSummary):
    """Jobs that were submitted together."""

    jobs: list[JobView]

    @property
    def cases(self) -> tuple[JobView, ...]:
        """The job of each case that says how the case stands: the first that failed, or runs ..."""
        groups: dict[str, list[JobView]] = {}
        for job in self.jobs:
            groups.setdefault(job.group_id, []).append(job)
        states = {
            name: contracts.leading(job.state for job in jobs) for name, jobs in groups.items()
        }
        return tuple(
            next(job for job in jobs if job.state is states[name]) for name, jobs in groups.items()
        )


class Submitted(SubmissionView):
    """A submission, answered to whoever made it."""

    left_out: int
    """Cases of the suite, of the workloads in ``only`` if any, that were not queued: the device
    refuses them. It is told here only: later the suite may have other cases."""


class Drain(Document):
    """Somebody's word that a worker is given no job until it is resumed."""

    actor: str
    reason: str
    """Empty: none was given."""
    at: datetime


class WorkerView(Document):
    """A worker, and when it was last heard of."""

    name: str
    labels: dict[str, str]
    version: str
    revisions: list[str] | None
    """Revisions whose own code it can run; empty: it runs what is installed for each. Null: it
    does not say."""
    warnings: list[str]
    """Whatever was wrong with its machine when it started."""
    targets: dict[str, str]
    """The repositories that it builds, each with what keeps it from knowing its refs; or empty."""
    drain: Drain | None
    """Null: it is given jobs."""
    first_seen_at: datetime
    last_seen_at: datetime


class IntroducedWorker(WorkerView):
    """A worker as the service knows it by now, and what it is asked for."""

    list_range: contracts.CommitRange | None
    """Two revisions that it builds: its next introduction is to list what lies between them."""


class ScheduleView(Document):
    """A schedule, and when it fires next."""

    name: str
    cron: str
    timezone: str
    suite: str
    project: str
    """Empty: it belongs to none."""
    revision_rule: str
    requires: dict[str, str]
    explore_s: float
    again: bool
    enabled: bool
    created_at: datetime
    next_due_at: datetime | None
    """None while it is disabled. A slot that waits keeps its time."""
    note: str
    """Why the newest slot waits, or submitted nothing; empty if it did."""


Source = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9_.:-]{0,63}$"),
    contracts.Worded(
        "must be 1 to 64 of the characters a-z, 0-9, '_', '.', ':' and '-', the first a letter or "
        "digit"
    ),
]
