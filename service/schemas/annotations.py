"""Annotations of people, as the API answers with them."""

from __future__ import annotations

from datetime import datetime

from service.schemas.document import Document


class AnnotationView(Document):
    """What somebody wrote beside the histories of a project, at a revision or at a time."""

    id: str
    project: str | None
    """Null: it is shown in all projects."""
    revision: str | None
    """Null: it is about a time."""
    at: datetime
    """Its place in the order of revisions."""
    text: str
    actor: str
    created_at: datetime
