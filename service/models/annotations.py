"""Annotations: what people wrote beside the histories."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base


class AnnotationRow(Base):
    """A sentence about a revision, or about a time. Nothing is computed from it."""

    __tablename__ = "annotations"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    project: Mapped[str] = mapped_column(String(64))
    """Empty: it is shown in all projects."""
    revision: Mapped[str | None] = mapped_column(ForeignKey("revisions.name"))
    at: Mapped[datetime | None]
    """Null: where its revision is in the order."""
    text: Mapped[str] = mapped_column(String(500))
    actor: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime]
    __table_args__ = (Index(None, "project", "id"),)
