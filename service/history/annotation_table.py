"""Annotations of people beside histories: at a revision, or at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.database import paging
from service.database.paging import Page
from service.database.session import check_time, found, new_id, pairs
from service.history import revisions
from service.models import AnnotationRow, Revision
from service.schemas.annotations import AnnotationView
from service.schemas.errors import Invalid

MOST = 500
"""Annotations of a history that are looked at: those that were made last."""


def add(
    session: Session,
    text: str,
    actor: str,
    now: datetime,
    *,
    revision: str | None = None,
    at: datetime | None = None,
    project: str | None = None,
) -> AnnotationView:
    """Write an annotation beside the histories of a project, or of all.

    Raises:
        Invalid: it names neither a revision nor a time, or both.
        UnknownChoice: there is no such revision, or the beginning of a name stands for several.
    """
    if (revision is None) == (at is None):
        raise Invalid("Name a revision or a time: an annotation is about one of them.")
    if at is not None:
        check_time("at", at)
    name = None if revision is None else revisions.find(session, revision)
    row = AnnotationRow(
        id=new_id(now),
        project=project or "",
        revision=name,
        at=at,
        text=text,
        actor=actor,
        created_at=now,
    )
    session.add(row)
    session.flush()
    return _views(session, [row])[0]


def remove(session: Session, annotation_id: str) -> None:
    """Remove an annotation.

    Raises:
        NotFound: there is none of that id.
    """
    row = found(session, AnnotationRow, annotation_id)
    session.delete(row)
    session.flush()


def list_annotations(session: Session, *, after: str | None, limit: int) -> Page[AnnotationView]:
    """All annotations, those that were made last first."""
    page = paging.newest_first(session, AnnotationRow, AnnotationRow.id, (), after, limit)
    return page.shown(_views(session, page.items))


def of_revision(session: Session, name: str) -> list[AnnotationView]:
    """The annotations about a revision, the first first."""
    rows = select(AnnotationRow).where(AnnotationRow.revision == name).order_by(AnnotationRow.id)
    return _views(session, session.scalars(rows.limit(MOST)).all())


def beside(
    session: Session,
    projects: Collection[str],
    since: datetime | None,
    until: datetime | None = None,
) -> list[AnnotationView]:
    """The annotations of some projects in a stretch of their order, the earliest first."""
    rows = select(AnnotationRow).where(AnnotationRow.project.in_({"", *projects}))
    newest = session.scalars(rows.order_by(AnnotationRow.id.desc()).limit(MOST)).all()
    inside = [
        one
        for one in _views(session, newest)
        if (since is None or one.at >= since) and (until is None or one.at <= until)
    ]
    return sorted(inside, key=lambda one: (one.at, one.id))


def _views(session: Session, rows: Sequence[AnnotationRow]) -> list[AnnotationView]:
    """Place rows; one about a revision that the session does not see is left out."""
    names = {row.revision for row in rows if row.revision is not None}
    query = select(Revision.name, Revision.ordered_at).where(Revision.name.in_(names))
    places = pairs(session, query)
    placed = ((row, row.at or places.get(row.revision or "")) for row in rows)
    return [
        AnnotationView.of(row, at=at, project=row.project or None)
        for row, at in placed
        if at is not None
    ]
