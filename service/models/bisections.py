"""A range of commits in which the one that changed something is searched."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, true
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base, ProjectOwned, states
from service.schemas.bisections import BisectionState

PROBES = "bisection:"
"""How the source of a probe's comparison begins."""


class BisectionRow(ProjectOwned, Base):
    """One bisection. Only `service.comparisons.bisection` changes it, by compare-and-swap.

    Its probes are comparisons of one pair each, which hold what was measured.
    """

    __tablename__ = "bisections"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Time-ordered, so that it also pages."""
    state: Mapped[str] = mapped_column(String(16))
    finding_id: Mapped[str | None] = mapped_column(ForeignKey("findings.id"), index=True)
    request: Mapped[dict[str, Any]]
    """The BisectionRequest as accepted, with the commits as soon as they are known."""
    listed: Mapped[bool] = mapped_column(server_default=true())
    """False while its commits are the ends alone, and a worker is to list those between."""
    subject: Mapped[dict[str, Any]]
    """The case, the metric and the change to explain, as they were known at the start."""
    probes: Mapped[list[Any]]
    """What was asked: places of two commits, and the comparison of their pair."""
    probed: Mapped[int]
    """How many probes there are; who raises it asks the next."""
    created_at: Mapped[datetime]
    decided_at: Mapped[datetime | None]
    decision: Mapped[dict[str, Any] | None]
    """The outcome, once it stands."""
    reason: Mapped[str] = mapped_column(Text)
    """Why it was cancelled, or could not go on."""
    __table_args__ = (
        states("state", BisectionState),
        Index(None, "state", "id"),
        Index(None, "project", "id"),
    )
