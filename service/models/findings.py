"""The tables of findings, of the series that they are about, and of what was done with them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import Date, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base, ProjectOwned, states
from service.schemas.findings import FindingState


class FindingRow(ProjectOwned, Base):
    """One cause, however many series it moved."""

    __tablename__ = "findings"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    """``regression``, ``improvement``, ``bad_node``, ``overtaken`` or ``failure``."""
    state: Mapped[str] = mapped_column(String(16))
    cause: Mapped[str] = mapped_column(String(16))
    certainty: Mapped[str] = mapped_column(String(16))
    """``confirmed`` by measuring again, or ``standing`` in the history for several points."""
    says: Mapped[dict[str, Any]]
    """The statement that sums it up."""
    attribution: Mapped[dict[str, Any] | None]
    measured: Mapped[dict[str, Any]]
    """Results that were measured for it, by ``before`` and ``after``: which level they show.

    ``not_reproduced`` names the first one of a change that was not there when measured again.
    ``series`` names series: those in which a node is slow; the new best case and the former one;
    those of cases that failed, of which ``failing`` still do, with one ``status``.
    """
    last_good: Mapped[str | None] = mapped_column(ForeignKey("revisions.name"))
    first_bad: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    first_bad_at: Mapped[datetime]
    """Place of ``first_bad`` in the order of revisions; moves when that revision's date does."""
    comparability: Mapped[dict[str, str]]
    worker: Mapped[str | None] = mapped_column(ForeignKey("workers.name"))
    """The node, if it is the cause."""
    share: Mapped[float | None]
    """Slowdown of the node against its past, or gain of the new best case over the former one."""
    drifts: Mapped[bool] = mapped_column(default=False)
    """Whether its change is a drift over several revisions, not a step."""
    owner: Mapped[str] = mapped_column(String(100))
    note: Mapped[str] = mapped_column(Text)
    due_on: Mapped[date | None] = mapped_column(Date)
    opened_at: Mapped[datetime]
    closed_at: Mapped[datetime | None]
    version: Mapped[int]
    """Counts changes: whoever changes it says which version was seen."""
    __table_args__ = (
        states("state", FindingState),
        Index(None, "state", "id"),
        Index(None, "first_bad"),
        Index(None, "project", "id"),
    )


class FindingSeries(Base):
    """One series that a finding is about."""

    __tablename__ = "finding_series"
    finding_id: Mapped[str] = mapped_column(ForeignKey("findings.id"), primary_key=True)
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id"), primary_key=True)
    change_id: Mapped[str] = mapped_column(ForeignKey("changes.id"), unique=True)
    """The change of the series; no other finding is about it."""
    first_bad_result: Mapped[str] = mapped_column(String(32))
    """The first point of the new level, as reported."""
    first_bad_at: Mapped[datetime]
    """Its place in the order of revisions."""
    effect: Mapped[float]
    """As a share of the level before, signed as measured."""
    effect_low: Mapped[float]
    effect_high: Mapped[float]
    before: Mapped[float]
    after: Mapped[float]
    doubt: Mapped[float]
    """Probability that there is no such change."""
    ended: Mapped[str] = mapped_column(String(16))
    """Empty while the change stands; ``recovered`` or ``gone`` afterwards."""
    ended_at: Mapped[datetime | None]
    """Place in the order of revisions from which on it is recovered."""
    place: Mapped[int]
    """In the order of joining; 0 is the series that the finding was opened for."""
    __table_args__ = (Index(None, "series_id"),)


class FindingEvent(Base):
    """Something that was done with a finding; never changed."""

    __tablename__ = "finding_events"
    id: Mapped[int] = mapped_column(primary_key=True)
    """Counts up, for two things may be done in one millisecond."""
    finding_id: Mapped[str] = mapped_column(ForeignKey("findings.id"), index=True)
    at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(String(100))
    """A person's name, or ``throughline``."""
    action: Mapped[str] = mapped_column(String(32))
    detail: Mapped[str] = mapped_column(Text)
    """As somebody wrote it."""
    says: Mapped[dict[str, Any] | None]
    """The statement of what the service itself did."""
