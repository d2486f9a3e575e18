"""Submissions, jobs, and the attempts of workers at them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from benchmarks.contracts import AttemptState, JobState
from service.models.columns import Base, ProjectOwned, one_per_job, states


class WorkerRow(Base):
    """A worker that has introduced itself."""

    __tablename__ = "workers"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    labels: Mapped[dict[str, str]]
    gpu_uuid: Mapped[str | None] = mapped_column(String(500), index=True)
    """Its label of that name, by which every claim looks for other workers of the same GPU."""
    version: Mapped[str] = mapped_column(String(500))
    revisions: Mapped[list[str] | None]
    """Whose own code it can run; empty: it runs what is installed for each; None: unknown."""
    warnings: Mapped[list[str] | None]
    """Whatever it found wrong with its machine; None: it did not look."""
    targets: Mapped[dict[str, str] | None]
    """The repositories that it builds, each with what keeps it from knowing its refs."""
    heads: Mapped[list[dict[str, Any]] | None]
    """Where the refs of its targets are, each with ``moved_at``: when the worker first told it."""
    heads_told_at: Mapped[datetime | None]
    """When it last told them, whether they had moved or not."""
    drained_at: Mapped[datetime | None]
    """Since when it is given no job, because somebody said so; its introductions leave it alone."""
    drained_by: Mapped[str | None] = mapped_column(String(100))
    drain_reason: Mapped[str | None] = mapped_column(String(500))
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]


class Submission(ProjectOwned, Base):
    """Jobs that were submitted together: one suite, or one case, at one revision."""

    __tablename__ = "submissions"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    suite: Mapped[str | None] = mapped_column(String(64))
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    source: Mapped[str] = mapped_column(String(64))
    """``api``, ``schedule:nightly`` ..."""
    created_at: Mapped[datetime]
    __table_args__ = (
        Index(None, "revision"),
        Index(None, "created_at"),
        Index(None, "project", "id"),
    )


class IdempotencyKey(Base):
    """The answer that a key got, so that the same request gets it again."""

    __tablename__ = "idempotency_keys"
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of method, path and body."""
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"))
    created_at: Mapped[datetime]


class LabelSet(Base):
    """A set of labels that jobs ask for, stored once."""

    __tablename__ = "requirements"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    labels: Mapped[dict[str, str]]


class Eligibility(Base):
    """A worker and a requirement set that its labels meet; see `service.jobs.eligibility`.

    An index of ours and no fact, so without foreign keys: their locks would make claims wait for
    submissions.
    """

    __tablename__ = "eligibilities"
    requires: Mapped[str] = mapped_column(String(64), primary_key=True)
    worker: Mapped[str] = mapped_column(String(64), primary_key=True)
    rank: Mapped[int | None]
    """No job of the set that the worker may begin stands before; null: none waits."""
    place: Mapped[str] = mapped_column(String(32), server_default="")
    """The id of that job."""
    __table_args__ = (Index(None, "worker", "rank", "place", "requires"),)


class Job(ProjectOwned, Base):
    """One process that measures a case. Only `service.jobs` changes its state."""

    __tablename__ = "jobs"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Time-ordered: among jobs of one rank the smallest is next in the queue."""
    group_id: Mapped[str] = mapped_column(String(32), index=True)
    """The first job of its case in its submission: the case's replicates are a group."""
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"), index=True)
    position: Mapped[int]
    """The place of its case within its submission."""
    replicate: Mapped[int]
    """Which of its case's processes it is, from 1."""
    case_key: Mapped[str] = mapped_column(Text)
    spec: Mapped[dict[str, Any]]
    """The JobSpec as submitted, names checked and case normalised."""
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    requires: Mapped[str] = mapped_column(ForeignKey("requirements.digest"))
    """The labels that its worker must have."""
    rank: Mapped[int]
    """Minus the priority: smaller first, so that one plain ascending index is the queue."""
    state: Mapped[str] = mapped_column(String(16))
    kept_for: Mapped[str | None] = mapped_column(String(64))
    """The worker that began its group, and is to measure it; see `service.jobs.groups`."""
    attempt: Mapped[int]
    """Number of the latest attempt; 0 before the first."""
    lost_attempts: Mapped[int]
    cancel_requested: Mapped[bool]
    reason: Mapped[str] = mapped_column(Text)
    rerun_of: Mapped[str | None] = mapped_column(String(500))
    created_at: Mapped[datetime]
    queued_at: Mapped[datetime]
    """When it was last put into the queue; its age is its id."""
    finished_at: Mapped[datetime | None]
    __table_args__ = (
        states("state", JobState),
        Index(None, "state", "requires", "rank", "id"),
        Index(None, "revision"),
        # Few jobs are kept for somebody; each sweep looks for them among all that are queued.
        Index(
            None,
            "kept_for",
            sqlite_where=text("kept_for IS NOT NULL"),
            postgresql_where=text("kept_for IS NOT NULL"),
        ),
        Index(None, "project", "id"),
    )


class Attempt(Base):
    """One worker's hold on a job: the attempt, not the job, is what a worker holds."""

    __tablename__ = "attempts"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    worker: Mapped[str] = mapped_column(ForeignKey("workers.name"), index=True)
    claim_id: Mapped[str] = mapped_column(String(32), unique=True)
    secret: Mapped[str] = mapped_column(String(64))
    """Kept as handed out, because the same claim must get the same lease back."""
    state: Mapped[str] = mapped_column(String(16))
    granted_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    lease_expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(Text)
    progress: Mapped[dict[str, Any] | None]
    log_tail: Mapped[str | None] = mapped_column(String(2_000))
    """The newest end of its child's log, until there is a result."""
    __table_args__ = (
        states("state", AttemptState),
        Index(None, "state", "lease_expires_at"),
        one_per_job("uq_attempts_live", "state in ('granted', 'started')"),
    )
