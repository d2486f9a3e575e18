"""Suspicious points that are measured again before anybody is told."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base, states

CONFIRMATIONS = "confirmation:"
"""Prefix of the source of a confirmation's comparison."""


class ConfirmationState(StrEnum):
    """The state of a suspicion; all but the first are final."""

    RUNNING = "running"
    CONFIRMED = "confirmed"
    """The revisions differ, or the slow one is slow again where they cannot be told apart."""
    NOT_REPRODUCED = "not_reproduced"
    BAD_NODE = "bad_node"
    """The last good revision is as slow there, and not elsewhere."""
    ENVIRONMENT = "environment"
    """The last good revision is as slow now, wherever it was measured."""
    UNRESOLVED = "unresolved"


class ConfirmationRow(Base):
    """One suspicion. Only `service.findings.confirm` changes it."""

    __tablename__ = "confirmations"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id"))
    case_key: Mapped[str] = mapped_column(Text)
    last_good: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    first_bad: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    first_bad_at: Mapped[datetime]
    first_bad_result: Mapped[str] = mapped_column(ForeignKey("results.id"))
    worker: Mapped[str] = mapped_column(ForeignKey("workers.name"))
    """Who measured the suspicious point."""
    before: Mapped[float]
    after: Mapped[float]
    """The level that was expected, and what was measured, as all workers measure together."""
    usual: Mapped[dict[str, Any]]
    """What single workers measured at the level before, where they are known well enough."""
    change_id: Mapped[str | None] = mapped_column(ForeignKey("changes.id"), index=True)
    """The change that it is about; none while the history shows no change there."""
    state: Mapped[str] = mapped_column(String(16))
    comparisons: Mapped[list[str]]
    """What was measured again, in order; the last one is under way while the state is running."""
    reading: Mapped[dict[str, Any] | None]
    """What the first comparison said, once there is a second."""
    says: Mapped[dict[str, Any]]
    """The statement of its outcome, or of what is under way."""
    created_at: Mapped[datetime]
    decided_at: Mapped[datetime | None]
    __table_args__ = (
        states("state", ConfirmationState),
        UniqueConstraint("series_id", "first_bad"),
        Index(None, "state", "id"),
        Index(None, "created_at"),
    )
