"""Tables. Dimensions are data: no axis, metric or fingerprint key is a column."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

from benchmarks.contracts import AttemptState, JobState

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC instant on both databases; SQLite drops offsets, so they never reach it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Refuse a naive time; store UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone cannot be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Read UTC back as an aware time."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Names every constraint, so that migrations can drop what they made on both databases."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        datetime: UtcDateTime(),
        dict[str, Any]: JSON(),
        dict[str, str]: JSON(),
        list[str]: JSON(),
        str: String(),
    }


def _states(column: str, states: type[JobState] | type[AttemptState]) -> CheckConstraint:
    names = ", ".join(f"'{state.value}'" for state in states)
    return CheckConstraint(f"{column} in ({names})", name=f"{column}_known")


def _one_per_job(name: str, condition: str) -> Index:
    """Let at most one row per job meet ``condition``: a promise that the database keeps."""
    where = text(condition)
    return Index(name, "job_id", unique=True, sqlite_where=where, postgresql_where=where)


class Revision(Base):
    """The version under test; ``ordered_at`` places it in every history."""

    __tablename__ = "revisions"
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    ordered_at: Mapped[datetime]
    """When it was made, if someone said so; else when it was first seen."""
    dated: Mapped[bool]
    """Whether ``ordered_at`` was said rather than assumed."""
    first_seen_at: Mapped[datetime]


class WorkerRow(Base):
    """A worker that has introduced itself."""

    __tablename__ = "workers"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    labels: Mapped[dict[str, str]]
    version: Mapped[str] = mapped_column(String(500))
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]


class Submission(Base):
    """Jobs that were submitted together: one suite, or one case, at one revision."""

    __tablename__ = "submissions"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    suite: Mapped[str | None] = mapped_column(String(64))
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    source: Mapped[str] = mapped_column(String(64))
    """``api``, ``schedule:nightly`` ..."""
    created_at: Mapped[datetime]
    __table_args__ = (Index(None, "revision"), Index(None, "created_at"))


class IdempotencyKey(Base):
    """The answer that a key got, so that the same request gets it again."""

    __tablename__ = "idempotency_keys"
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of method, path and body."""
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"))
    created_at: Mapped[datetime]


class Requirement(Base):
    """A set of labels that jobs ask for, stored once.

    There are few sets and many jobs: a worker compares its labels with the sets, and then one
    index leads to the next job, however many jobs of other sets are queued.
    """

    __tablename__ = "requirements"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    labels: Mapped[dict[str, str]]


class Job(Base):
    """One case to be measured. Only `service.queue` changes its state."""

    __tablename__ = "jobs"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Time-ordered, so that it also pages."""
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"), index=True)
    position: Mapped[int]
    """Place within its submission."""
    case_key: Mapped[str] = mapped_column(Text)
    spec: Mapped[dict[str, Any]]
    """The JobSpec as submitted, names checked and case normalised."""
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    requires: Mapped[str] = mapped_column(ForeignKey("requirements.digest"))
    """The labels that its worker must have."""
    rank: Mapped[int]
    """Minus the priority: smaller first, so that one plain ascending index is the queue."""
    state: Mapped[str] = mapped_column(String(16))
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
        _states("state", JobState),
        Index(None, "state", "requires", "rank", "id"),
        Index(None, "revision"),
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
    __table_args__ = (
        _states("state", AttemptState),
        Index(None, "state", "lease_expires_at"),
        _one_per_job("uq_attempts_live", "state in ('granted', 'started')"),
    )


class EnvironmentRow(Base):
    """A fingerprint, stored once; named by the digest of its facts."""

    __tablename__ = "environments"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    facts: Mapped[dict[str, str]]
    first_seen_at: Mapped[datetime]


class ResultRow(Base):
    """A posted Result as it came, whether it counts or not."""

    __tablename__ = "results"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(32))
    attempt: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of ``document``."""
    counted: Mapped[bool]
    """False for a late result: kept and shown, never in a series."""
    status: Mapped[str] = mapped_column(String(32))
    reason: Mapped[str] = mapped_column(Text)
    case_key: Mapped[str] = mapped_column(Text)
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    worker: Mapped[str] = mapped_column(ForeignKey("workers.name"))
    environment: Mapped[str] = mapped_column(ForeignKey("environments.digest"))
    measured_at: Mapped[datetime]
    received_at: Mapped[datetime]
    verdict: Mapped[dict[str, Any] | None]
    """What limits it, beside the document, because a page shows it for every series at once."""
    document: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    """The canonical JSON of the Result, zlib-compressed."""
    __table_args__ = (
        ForeignKeyConstraint(["job_id", "attempt"], ["attempts.job_id", "attempts.number"]),
        UniqueConstraint("job_id", "attempt", "digest"),
        _one_per_job("uq_results_counted", "counted"),
        Index(None, "revision"),
        Index(None, "measured_at"),
    )


class SeriesRow(Base):
    """A history that may be read as one line: case x metric x comparable hardware."""

    __tablename__ = "series"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Digest of what defines it, so that two replicas name it alike."""
    case_key: Mapped[str] = mapped_column(Text)
    case: Mapped[dict[str, Any]]
    metric: Mapped[str] = mapped_column(String(64))
    unit: Mapped[str] = mapped_column(String(500))
    direction: Mapped[str] = mapped_column(String(16))
    comparability: Mapped[dict[str, str]]
    created_at: Mapped[datetime]
    __table_args__ = (Index(None, "case_key", "metric"),)


class Point(Base):
    """One counted result in one series, in the order of revisions and not of arrival."""

    __tablename__ = "points"
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id"), primary_key=True)
    revision_at: Mapped[datetime] = mapped_column(primary_key=True)
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"), primary_key=True)
    measured_at: Mapped[datetime] = mapped_column(primary_key=True)
    result_id: Mapped[str] = mapped_column(ForeignKey("results.id"), primary_key=True)
    value: Mapped[float]
    low: Mapped[float | None]
    high: Mapped[float | None]
    interval: Mapped[str] = mapped_column(String(16))
    """``replicates``, ``within_run`` or ``none``: what ``low`` and ``high`` rest on."""
    replicates: Mapped[int]
    environment: Mapped[str] = mapped_column(ForeignKey("environments.digest"))
    worker: Mapped[str] = mapped_column(ForeignKey("workers.name"))
    __table_args__ = (
        Index(None, "result_id"),
        Index(None, "revision"),
        {"sqlite_with_rowid": False},
    )


class Schedule(Base):
    """A cron expression in a time zone that submits a suite."""

    __tablename__ = "schedules"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    cron: Mapped[str] = mapped_column(String(200))
    timezone: Mapped[str] = mapped_column(String(64))
    suite: Mapped[str] = mapped_column(String(64))
    revision_rule: Mapped[str] = mapped_column(String(120))
    """``date`` names the revision after the slot's local date; ``latest`` takes the newest
    revision known; anything else is ``fixed:<revision>``."""
    requires: Mapped[dict[str, str]]
    enabled: Mapped[bool]
    created_at: Mapped[datetime]
    next_due_at: Mapped[datetime | None]


class Slot(Base):
    """A schedule's firing: the primary key makes each happen once, over restarts and replicas."""

    __tablename__ = "slots"
    schedule: Mapped[str] = mapped_column(
        ForeignKey("schedules.name", ondelete="CASCADE"), primary_key=True
    )
    due_at: Mapped[datetime] = mapped_column(primary_key=True)
    fired_at: Mapped[datetime]
    submission_id: Mapped[str | None] = mapped_column(ForeignKey("submissions.id"))
