"""The log of what happened to jobs and attempts; it only grows."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base


class JobEvent(Base):
    """One transition of a job or of one of its attempts.

    Triggers write it in the transaction of the change itself, and refuse a change that the state
    machines do not know; no code can change a state and forget to say so. They are made by
    the migration, because SQLAlchemy does not know triggers.
    """

    __tablename__ = "job_events"
    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    """Within a job in the order of its changes: whoever changes a job holds its row."""
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    attempt: Mapped[int | None]
    """Number of the attempt that changed; None if the job did."""
    from_state: Mapped[str | None] = mapped_column(String(16))
    """None at the beginning."""
    to_state: Mapped[str] = mapped_column(String(16))
    at: Mapped[datetime]
    """When the queue says that it happened: the time that it was given, not the trigger's."""
    worker: Mapped[str | None] = mapped_column(String(64))
    """Who held the job then; None if nobody did."""
    reason: Mapped[str] = mapped_column(Text)
    __table_args__ = (Index(None, "job_id", "id"),)
