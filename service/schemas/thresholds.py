"""Thresholds: from which size on changes are reported, as the API answers with them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from service.schemas.document import Document

Never = Literal["never"]


class ThresholdView(Document):
    """A rule of a team: changes in its scope are reported from a size on, or never."""

    id: str
    project: str | None
    """Null: all projects; of the rule of a series, no project."""
    workload: str | None
    """Null: all workloads."""
    metric: str | None
    """Null: all metrics."""
    series_id: str | None
    """Null: all series of the rest of the scope."""
    least_effect: float | Never
    """As a share of the level before."""
    actor: str
    reason: str
    set_at: datetime
