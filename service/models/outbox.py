"""Events for other programs, and their deliveries."""

from __future__ import annotations

from datetime import datetime

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
    subject: Mapped[str] = mapped_column(String(32))
    """The id of the finding, comparison or bisection; empty in a test."""
    headline: Mapped[str] = mapped_column(Text)
    sentence: Mapped[str] = mapped_column(Text)
    size: Mapped[float | None]
    """Size of the change, as a share; None if the event has none."""
    routed: Mapped[bool]
    """Whether its deliveries were made."""
    __table_args__ = (Index(None, "routed", "id"), Index(None, "project", "id"))


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
