"""Events for other programs, and their deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base, ProjectOwned, states
from service.schemas.outbox import DeliveryState


class OutboxEvent(ProjectOwned, Base):
    """Something that happened, in words; written in the transaction of the change itself."""

    __tablename__ = "outbox_events"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Time-ordered; every attempt to deliver the event carries it."""
    kind: Mapped[str] = mapped_column(String(32))
    at: Mapped[datetime]
    subject: Mapped[str] = mapped_column(String(64))
    """The id of the finding, comparison or bisection, the worker's name, the night's date, or the
    sink of a digest; empty in a test."""
    headline: Mapped[str] = mapped_column(Text)
    sentence: Mapped[str] = mapped_column(Text)
    size: Mapped[float | None]
    """Size of the change, as a share; None if the event has none."""
    pull_request: Mapped[str] = mapped_column(String(300), default="")
    """The key of the pull request that it is about; empty if there is none."""
    workload: Mapped[str] = mapped_column(Text)
    """Empty: it is about no workload, or about several."""
    outcome: Mapped[str] = mapped_column(String(32))
    """What it came to, such as ``regression``, ``fail`` or ``culprit``; empty if to nothing."""
    details: Mapped[dict[str, Any] | None]
    """The report of a night, or what a digest lists."""
    routed: Mapped[bool]
    """Whether its deliveries were made."""
    __table_args__ = (
        Index(None, "routed", "id"),
        Index(None, "project", "id"),
        Index(None, "pull_request", "id"),
        Index(None, "kind", "subject", "id"),
    )


class DeliveryRow(Base):
    """One event on its way to one sink. Only `service.outbox.deliveries` changes it."""

    __tablename__ = "outbox_deliveries"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    event_id: Mapped[str] = mapped_column(ForeignKey("outbox_events.id"))
    sink: Mapped[str] = mapped_column(String(64))
    """The name of a sink in the operator's file, which may have lost it since."""
    state: Mapped[str] = mapped_column(String(16), default=DeliveryState.WAITING)
    attempts: Mapped[int] = mapped_column(default=0)
    """Attempts begun; who raises it makes the next one."""
    due_at: Mapped[datetime]
    delivered_at: Mapped[datetime | None]
    error: Mapped[str] = mapped_column(Text, default="")
    __table_args__ = (
        states("state", DeliveryState),
        UniqueConstraint("event_id", "sink"),
        Index(None, "sink", "state", "due_at"),
    )


class ForgeComment(Base):
    """The one comment of a sink on a subject. Only `service.outbox.forge_comments` changes it."""

    __tablename__ = "forge_comments"
    sink: Mapped[str] = mapped_column(String(64), primary_key=True)
    subject: Mapped[str] = mapped_column(String(300), primary_key=True)
    """The key of a pull request, ``finding:`` or ``command:`` and an id."""
    repository: Mapped[str] = mapped_column(String(200))
    number: Mapped[int]
    """Of the pull request that it stands on; 0 while nobody has found one."""
    comment_id: Mapped[str] = mapped_column(String(64))
    """As the forge names it; empty until it is known to be there."""
    held_until: Mapped[datetime]
    """Until then one courier writes it, and all others wait."""
