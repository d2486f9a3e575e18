"""From which size on changes are reported, where a team has said so."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base


class ThresholdRow(Base):
    """A rule of a team: changes in its scope are reported from a size on, or never.

    An empty part of the scope takes in everything. Only `service.findings.threshold_table` changes
    it.
    """

    __tablename__ = "thresholds"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Digest of the scope, so that a scope has one rule."""
    project: Mapped[str] = mapped_column(String(64))
    workload: Mapped[str] = mapped_column(String(128))
    metric: Mapped[str] = mapped_column(String(64))
    series_id: Mapped[str | None] = mapped_column(ForeignKey("series.id"))
    """If it is given, ``project`` is the one of the series, and the others are empty."""
    least_effect: Mapped[float | None]
    """As a share of the level before; null: no change is reported."""
    actor: Mapped[str] = mapped_column(String(100))
    reason: Mapped[str] = mapped_column(String(500))
    set_at: Mapped[datetime]
