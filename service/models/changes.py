"""The tables of analysis: the changes of each history, and what waits to be analysed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base


class PendingAnalysis(Base):
    """Something that changed histories and has not been analysed yet.

    Only ever inserted and deleted, so that results that arrive together wait for no common row.
    """

    __tablename__ = "pending_analyses"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Time-ordered: the oldest is analysed first."""
    revision: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    result_id: Mapped[str | None] = mapped_column(String(32))
    """Whose points are new or have changed, or that failed; without it, all of the revision."""
    since: Mapped[datetime]
    """From which place in the order of revisions on histories changed."""


class AnalysisRow(Base):
    """The analysis of a series, as far as it has been analysed."""

    __tablename__ = "analyses"
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id"), primary_key=True)
    points: Mapped[int]
    """How many points it rests on."""
    newest: Mapped[list[dict[str, Any]]]
    """Change points of the newest window; more points may move them."""
    noise: Mapped[dict[str, Any] | None]
    spread: Mapped[dict[str, Any] | None]
    """How its values vary by step, process, night and node."""
    warnings: Mapped[list[dict[str, Any]]]
    analysed_at: Mapped[datetime]


class SettledWindow(Base):
    """A stretch of history that appended points do not touch, with the changes found in it."""

    __tablename__ = "settled_windows"
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    ends_at: Mapped[datetime]
    """Place of the last point it rests on; anything earlier that changes unsettles it."""
    next_from: Mapped[str] = mapped_column(String(32))
    """First point of what the next window rests on."""
    changes: Mapped[list[dict[str, Any]]]
    __table_args__ = (Index(None, "series_id", "ends_at"),)


class ChangeRow(Base):
    """A change of a series' level: the same row for as long as it is the same change."""

    __tablename__ = "changes"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id"))
    last_good: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    first_bad: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    first_bad_at: Mapped[datetime]
    """Place of ``first_bad`` in the order of revisions; moves when that revision's date does."""
    first_bad_result: Mapped[str] = mapped_column(String(32))
    """The first point of the new level."""
    estimate: Mapped[dict[str, Any]]
    """The change point as the detector, or measuring again, last described it."""
    present: Mapped[bool]
    """Whether the analysis shows it. If not, it is kept for the finding that refers to it."""
    __table_args__ = (Index(None, "series_id", "first_bad_at"),)


class Exclusion(Base):
    """A result that somebody took out of its histories, with the reason; it can be undone."""

    __tablename__ = "exclusions"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    result_id: Mapped[str] = mapped_column(ForeignKey("results.id"), index=True)
    reason: Mapped[str] = mapped_column(String(500))
    actor: Mapped[str] = mapped_column(String(100))
    excluded_at: Mapped[datetime]
    undone_at: Mapped[datetime | None]
    undone_by: Mapped[str | None] = mapped_column(String(100))
