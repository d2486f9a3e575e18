"""Revisions and their order: history follows when a version was made, not when it was measured."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import ColumnElement, CursorResult, Table, exists, func, or_, select, update
from sqlalchemy.orm import Session

from service.database.session import insert_if_absent
from service.history import pending
from service.models import (
    ChangeRow,
    ConfirmationRow,
    FindingRow,
    FindingSeries,
    ImportedPoint,
    Point,
    Revision,
    Submission,
)
from service.models.project_filter import EVERYBODYS
from service.schemas.errors import UnknownChoice

COMPARISON = "comparison:"
"""How the source of a comparison's submissions begins."""
ABBREVIATED = 7
"""Characters from which on the beginning of a name may stand for it: git's own rule."""
_SUBMITTED = exists().where(
    Submission.revision == Revision.name, ~Submission.source.startswith(COMPARISON)
)
_IMPORTED = exists().where(ImportedPoint.revision == Revision.name)
IN_HISTORY = or_(_SUBMITTED, _IMPORTED)
"""Of revisions: one that was only ever compared, such as a proposed change, is not in it."""
_REVISIONS = cast(Table, Revision.__table__)


def register(
    session: Session,
    name: str,
    said_at: datetime | None,
    now: datetime,
    *,
    assumed_at: datetime | None = None,
) -> None:
    """Make sure that ``name`` has a place in the order.

    ``said_at`` is when the submitter says the revision was made. It wins over the assumption that
    it was made when first seen, and the latest word wins over an earlier one; the points that the
    revision already has move with it, and so does what was found in them, in this transaction:
    those of all projects, for there is one order. ``assumed_at`` is a better assumption than now,
    such as when the first result of an imported history was measured.
    """
    row = {
        "name": name,
        "ordered_at": said_at or assumed_at or now,
        "dated": said_at is not None,
        "first_seen_at": now,
    }
    if insert_if_absent(session, _REVISIONS, row) or said_at is None:
        return
    before = session.scalars(
        select(Revision.ordered_at).where(Revision.name == name).with_for_update(),
        execution_options=EVERYBODYS,
    ).one()
    corrected = (
        update(Revision)
        .where(Revision.name == name)
        .where(or_(Revision.dated.is_(False), Revision.ordered_at != said_at))
        .values(ordered_at=said_at, dated=True)
    )
    if cast(
        "CursorResult[object]", session.execute(corrected, execution_options=EVERYBODYS)
    ).rowcount:
        _move(session, name, before, said_at)
        pending.mark_pending(session, now, name, min(before, said_at))


def describe(session: Session, name: str, author: str | None, title: str | None) -> None:
    """Store the author of a revision and the first line of its commit message, where given."""
    said = {key: text for key, text in (("author", author), ("title", title)) if text}
    if said:
        row = update(Revision).where(Revision.name == name).values(**said)
        session.execute(row, execution_options=EVERYBODYS)


def _move(session: Session, name: str, before: datetime, to: datetime) -> None:
    points = select(Point.result_id).where(Point.revision == name)
    for moved in (
        update(Point).where(Point.revision == name).values(revision_at=to),
        update(ChangeRow).where(ChangeRow.first_bad == name).values(first_bad_at=to),
        update(FindingRow).where(FindingRow.first_bad == name).values(first_bad_at=to),
        update(FindingSeries)
        .where(FindingSeries.first_bad_result.in_(points))
        .values(first_bad_at=to),
        # Where a change ended is known by its place alone.
        update(FindingSeries).where(FindingSeries.ended_at == before).values(ended_at=to),
        update(ConfirmationRow).where(ConfirmationRow.first_bad == name).values(first_bad_at=to),
    ):
        session.execute(moved.execution_options(synchronize_session=False, **EVERYBODYS))


def find(session: Session, name: str) -> str:
    """The revision of that name, or the only one that begins so, as commits are abbreviated.

    Raises:
        UnknownChoice: there is none, or more than one.
    """
    if session.get(Revision, name) is not None:
        return name
    begin = select(Revision.name).where(Revision.name.startswith(name, autoescape=True))
    # SQLite compares without regard to case here, and PostgreSQL with.
    rows = [one for one in session.scalars(begin.limit(20)) if one.startswith(name)]
    if len(name) >= ABBREVIATED and len(rows) == 1:
        return rows[0]
    several = f" {len(rows)} revisions begin so: name more of it." if len(rows) > 1 else ""
    raise UnknownChoice(
        f"Nothing was ever submitted at a revision {name!r}: check its name, or submit it.{several}"
    )


def in_history_of(project: str) -> ColumnElement[bool]:
    """Of revisions: one that a project has in its history."""
    imported = _IMPORTED.where(ImportedPoint.project == project)
    return or_(_SUBMITTED.where(Submission.project == project), imported)


def rank(session: Session, at: datetime, project: str | None = None) -> int:
    """Count the revisions of the history that come before a place in their order.

    With ``project`` those of its own history: what others measure in between moves nothing apart.
    """
    known = IN_HISTORY if project is None else in_history_of(project)
    earlier = select(func.count()).select_from(Revision).where(Revision.ordered_at < at, known)
    return session.execute(earlier).scalar_one()


def after(session: Session, name: str, until: datetime, project: str, by: int = 0) -> datetime:
    """Give the place of the revision that follows ``name``, at most ``until``, moved by ``by``."""
    last = select(Revision.ordered_at).where(Revision.name == name).scalar_subquery()
    between = Revision.ordered_at > last, Revision.ordered_at <= until
    known = select(Revision.ordered_at).where(in_history_of(project), *between)
    first: datetime | None = session.scalars(known.order_by(Revision.ordered_at).limit(1)).first()
    return beside(session, first or until, project, by)


def beside(session: Session, at: datetime, project: str, by: int) -> datetime:
    """Give the place of the revision that lies ``by`` revisions after ``at``; before, below zero.

    Where there are fewer, the last one that there is; ``at`` itself if there is none.
    """
    if not by:
        return at
    column = Revision.ordered_at
    query = select(column).where(in_history_of(project), column > at if by > 0 else column < at)
    order = column.asc() if by > 0 else column.desc()
    dates: list[datetime] = [at, *session.scalars(query.order_by(order).limit(abs(by)))]
    return dates[-1]


def latest(session: Session, project: str) -> str | None:
    """The newest revision of a project's history; None before the first."""
    newest = (
        select(Revision.name)
        .where(in_history_of(project))
        .order_by(Revision.ordered_at.desc(), Revision.name.desc())
    )
    return session.scalars(newest.limit(1)).first()
