"""Two revisions measured against each other, and the jobs that do it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from service.models.bisections import PROBES
from service.models.columns import Base, ProjectOwned, states
from service.models.confirmations import CONFIRMATIONS
from service.schemas.comparisons import ComparisonRequest, ComparisonState


class ComparisonRow(ProjectOwned, Base):
    """A baseline and a contender, measured in turn until a decision stands.

    Each case is measured on one device. Only `service.comparisons` changes the row, by
    compare-and-swap on ``state`` and ``rounds``.
    """

    __tablename__ = "comparisons"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Time-ordered, so that it also pages."""
    state: Mapped[str] = mapped_column(String(16))
    baseline: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    contender: Mapped[str] = mapped_column(ForeignKey("revisions.name"))
    source: Mapped[str] = mapped_column(String(64))
    request: Mapped[dict[str, Any]]
    """The ComparisonRequest as accepted."""
    cases: Mapped[list[Any]]
    """The cases that it means, normalised; a try names one by its place here."""
    baseline_submission: Mapped[str] = mapped_column(ForeignKey("submissions.id"))
    contender_submission: Mapped[str] = mapped_column(ForeignKey("submissions.id"))
    worker: Mapped[str | None] = mapped_column(String(64))
    """The first worker that was chosen; None until then. Each job names its own."""
    noise: Mapped[list[Any] | None]
    """Noise of each case by earlier gates; set when the first pairs are submitted."""
    rounds: Mapped[int]
    """How many rounds were submitted; who raises it submits the next."""
    created_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    """When the budget is spent."""
    decided_at: Mapped[datetime | None]
    decision: Mapped[dict[str, Any] | None]
    """The Decision, once it stands."""
    reason: Mapped[str] = mapped_column(Text)
    """Why it was cancelled, or what it waits for."""
    key: Mapped[str | None] = mapped_column(String(200))
    """The Idempotency-Key that it came with; one that was cancelled has given it up."""
    key_digest: Mapped[str | None] = mapped_column(String(64))
    """SHA-256 of the request that the key came with."""
    __table_args__ = (
        states("state", ComparisonState),
        UniqueConstraint("key"),
        Index(None, "state", "id"),
        Index(None, "source"),
        Index(None, "project", "id"),
    )

    @property
    def parsed_request(self) -> ComparisonRequest:
        """The request as a value."""
        return ComparisonRequest.model_validate(self.request)

    @property
    def is_step(self) -> bool:
        """Return True for a step of a bisection, and for what confirms a suspicion."""
        return self.source.startswith((PROBES, CONFIRMATIONS))


class ComparisonJob(Base):
    """One side of one pair of a comparison, and the job that measures it.

    A job that measures both sides stands in two rows.
    """

    __tablename__ = "comparison_tries"
    comparison_id: Mapped[str] = mapped_column(
        ForeignKey("comparisons.id", ondelete="CASCADE"), primary_key=True
    )
    place: Mapped[int] = mapped_column(primary_key=True)
    """In the order of submission."""
    case_place: Mapped[int]
    pair: Mapped[int]
    side: Mapped[str] = mapped_column(String(16))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
    measured: Mapped[dict[str, Any] | None]
    """What the job found out, as far as a gate needs it; None until the job has ended."""
    attempt: Mapped[int | None]
    worker: Mapped[str | None] = mapped_column(String(64))
    """The worker that the case is left to."""
    result_id: Mapped[str | None] = mapped_column(String(32))
