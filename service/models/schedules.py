"""Suites that submit themselves."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base, ProjectOwned


class Schedule(ProjectOwned, Base):
    """A cron expression in a time zone that submits a suite."""

    __tablename__ = "schedules"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    cron: Mapped[str] = mapped_column(String(200))
    timezone: Mapped[str] = mapped_column(String(64))
    suite: Mapped[str] = mapped_column(String(64))
    revision_rule: Mapped[str] = mapped_column(String(200))
    """``date`` names the revision after the slot's local date; ``latest`` takes the newest
    revision known; ``ref:<target>:<ref>`` where workers see a ref; else ``fixed:<revision>``."""
    requires: Mapped[dict[str, str]]
    explore_s: Mapped[float] = mapped_column(default=0.0)
    """Seconds of the devices, each slot, for cases that the suite does not have."""
    again: Mapped[bool] = mapped_column(default=False)
    """Whether it measures a commit that it has measured."""
    enabled: Mapped[bool]
    created_at: Mapped[datetime]
    next_due_at: Mapped[datetime | None]
    note: Mapped[str] = mapped_column(String(500), default="")
    """Why its newest slot waits, or submitted nothing."""


class ScheduleRun(Base):
    """A schedule's firing: the primary key makes each happen once, over restarts and replicas."""

    __tablename__ = "slots"
    schedule: Mapped[str] = mapped_column(
        ForeignKey("schedules.name", ondelete="CASCADE"), primary_key=True
    )
    due_at: Mapped[datetime] = mapped_column(primary_key=True)
    fired_at: Mapped[datetime]
    submission_id: Mapped[str | None] = mapped_column(ForeignKey("submissions.id"))
