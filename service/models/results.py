"""The tables of results, and of the histories that they make."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base, ProjectOwned, one_per_job

_FAILED = "status <> 'ok'"


class Revision(Base):
    """The version under test; ``ordered_at`` places it in every history."""

    __tablename__ = "revisions"
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    ordered_at: Mapped[datetime]
    """When it was made, if someone said so; else when it was first seen."""
    dated: Mapped[bool]
    """Whether ``ordered_at`` was said rather than assumed."""
    first_seen_at: Mapped[datetime]
    author: Mapped[str] = mapped_column(String(500), server_default="")
    """Author of the commit; empty if unknown."""
    title: Mapped[str] = mapped_column(String(500), server_default="")
    """First line of its message; empty if unknown."""


class CommitRangeRow(Base):
    """The commits, or releases, between two revisions, as a worker that builds both lists them."""

    __tablename__ = "commit_ranges"
    good: Mapped[str] = mapped_column(String(100), primary_key=True)
    bad: Mapped[str] = mapped_column(String(100), primary_key=True)
    asked_at: Mapped[datetime]
    listed_at: Mapped[datetime | None]
    commits: Mapped[list[Any]]
    """Those after the good one up to the bad one, the oldest first; empty until they are listed."""
    reason: Mapped[str] = mapped_column(String(500))
    """Why a worker could not list them."""


class EnvironmentRow(Base):
    """A fingerprint, stored once; named by the digest of its facts."""

    __tablename__ = "environments"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    facts: Mapped[dict[str, str]]
    first_seen_at: Mapped[datetime]


class ResultRow(ProjectOwned, Base):
    """A posted Result as it came, whether it counts or not."""

    __tablename__ = "results"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(32))
    attempt: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of ``document``."""
    counted: Mapped[bool]
    """False for a late result: kept and shown, never in a series."""
    replicate: Mapped[int]
    """Which of its case's processes it is of, from 1."""
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
        one_per_job("uq_results_counted", "counted"),
        Index(None, "revision"),
        Index(None, "measured_at"),
        Index(None, "project", "id"),
        Index(
            "ix_results_failed",
            "measured_at",
            sqlite_where=text(_FAILED),
            postgresql_where=text(_FAILED),
        ),
    )


FAILED = text(f"results.{_FAILED}")
"""Condition on results, in the words of the index that finds them."""


class ArtifactRow(Base):
    """A file that belongs to a result, as its worker sent it."""

    __tablename__ = "artifacts"
    result_id: Mapped[str] = mapped_column(ForeignKey("results.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    """An `ArtifactKind`."""
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the file, which is packed with gzip: its name among the artifacts."""
    size_b: Mapped[int]
    received_at: Mapped[datetime]
    __table_args__ = (Index(None, "digest"),)


class SeriesRow(ProjectOwned, Base):
    """A history that may be read as one line: case x metric x comparable hardware."""

    __tablename__ = "series"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Digest of what defines it, so that two replicas name it alike."""
    case_key: Mapped[str] = mapped_column(Text)
    case: Mapped[dict[str, Any]]
    source: Mapped[str] = mapped_column(String(64), server_default="")
    """The tool that measured it elsewhere; empty: it is measured here."""
    metric: Mapped[str] = mapped_column(String(500))
    unit: Mapped[str] = mapped_column(String(500))
    direction: Mapped[str] = mapped_column(String(16))
    comparability: Mapped[dict[str, str]]
    created_at: Mapped[datetime]
    __table_args__ = (Index(None, "case_key", "metric"), Index(None, "project", "id"))


class Point(Base):
    """What a case gave in one series, in the order of revisions and not of arrival.

    Of replicates that are one point (see `service.history.replicates`) it names the first's result.
    A point that was imported names its row in `ImportedPoint` instead.
    """

    __tablename__ = "points"
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id"), primary_key=True)
    revision_at: Mapped[datetime] = mapped_column(primary_key=True)
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"), primary_key=True)
    measured_at: Mapped[datetime] = mapped_column(primary_key=True)
    result_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[float]
    low: Mapped[float | None]
    high: Mapped[float | None]
    interval: Mapped[str] = mapped_column(String(16))
    """``replicates``, ``within_run`` or ``none``: what ``low`` and ``high`` rest on."""
    replicates: Mapped[int]
    within: Mapped[float | None]
    """Usual 95 % half-width within one of its processes, by the scatter of its steps."""
    environment: Mapped[str] = mapped_column(ForeignKey("environments.digest"))
    worker: Mapped[str | None] = mapped_column(ForeignKey("workers.name"))
    """None where it was imported: no worker of ours measured it."""
    excluded: Mapped[bool] = mapped_column(server_default=false())
    """Somebody took its result out, with a reason: shown, never analysed."""
    disturbed: Mapped[str] = mapped_column(String(500), server_default="")
    """The flags for which it decides nothing, such as ``throttled``: shown, never analysed."""
    __table_args__ = (
        Index(None, "result_id"),
        Index(None, "revision"),
        {"sqlite_with_rowid": False},
    )


class ImportedPoint(ProjectOwned, Base):
    """What another tool measured, as it was imported; each makes one point of its series."""

    __tablename__ = "imported_points"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Digest of its content, so that the same measurement is stored once."""
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id"), index=True)
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    committed_at: Mapped[datetime | None]
    """When the commit was made, if the tool says so."""
    received_at: Mapped[datetime]
    document: Mapped[str] = mapped_column(Text)
    """The `ForeignPoint` as JSON."""
    __table_args__ = (Index(None, "revision", "project"),)
