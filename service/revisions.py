"""Revisions and their order: history follows when a version was made, not when it was measured."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import CursorResult, Table, exists, func, or_, select, update
from sqlalchemy.orm import Session

from service.database import insert_if_absent
from service.errors import UnknownChoice
from service.levels import unjudged
from service.models import (
    ConfirmationRow,
    FindingRow,
    FindingSeries,
    Point,
    ResultRow,
    Revision,
    Submission,
)

COMPARISON = "comparison:"
"""How the source of a comparison's submissions begins."""
ABBREVIATED = 7
"""Characters from which on the beginning of a name may stand for it: git's own rule."""
IN_HISTORY = exists().where(
    Submission.revision == Revision.name, ~Submission.source.startswith(COMPARISON)
)
"""Of revisions: one that was only ever compared, such as a proposed change, is not in it."""
_REVISIONS = cast(Table, Revision.__table__)


def register(session: Session, name: str, said_at: datetime | None, now: datetime) -> None:
    """Make sure that ``name`` has a place in the order.

    ``said_at`` is when the submitter says the revision was made. It wins over the assumption that
    it was made when first seen, and the latest word wins over an earlier one; the points that the
    revision already has move with it, and so does what was found in them, in this transaction.
    """
    row = {
        "name": name,
        "ordered_at": said_at or now,
        "dated": said_at is not None,
        "first_seen_at": now,
    }
    if insert_if_absent(session, _REVISIONS, row) or said_at is None:
        return
    before = session.scalars(
        select(Revision.ordered_at).where(Revision.name == name).with_for_update()
    ).one()
    corrected = (
        update(Revision)
        .where(Revision.name == name)
        .where(or_(Revision.dated.is_(False), Revision.ordered_at != said_at))
        .values(ordered_at=said_at, dated=True)
    )
    if cast("CursorResult[object]", session.execute(corrected)).rowcount:
        _move(session, name, before, said_at)
        unjudged.note(session, now, name, min(before, said_at))


def _move(session: Session, name: str, before: datetime, to: datetime) -> None:
    results = select(ResultRow.id).where(ResultRow.revision == name)
    for moved in (
        update(Point).where(Point.revision == name).values(revision_at=to),
        update(FindingRow).where(FindingRow.first_bad == name).values(first_bad_at=to),
        update(FindingSeries)
        .where(FindingSeries.first_bad_result.in_(results))
        .values(first_bad_at=to),
        # Where a change ended is known by its place alone.
        update(FindingSeries).where(FindingSeries.ended_at == before).values(ended_at=to),
        update(ConfirmationRow).where(ConfirmationRow.first_bad == name).values(first_bad_at=to),
    ):
        session.execute(moved.execution_options(synchronize_session=False))


def find(session: Session, name: str) -> str:
    """The revision of that name, or the only one that begins so, as commits are abbreviated.

    Raises:
        UnknownChoice: there is none, or more than one.
    """
    if session.get(Revision, name) is not None:
        return name
    begin = select(Revision.name).where(Revision.name.startswith(name, autoescape=True))
    # SQLite compares without regard to case here, and PostgreSQL with.
    found = [one for one in session.scalars(begin.limit(20)) if one.startswith(name)]
    if len(name) >= ABBREVIATED and len(found) == 1:
        return found[0]
    several = f" {len(found)} revisions begin so: name more of it." if len(found) > 1 else ""
    raise UnknownChoice(
        f"Nothing was ever submitted at a revision {name!r}: check its name, or submit it.{several}"
    )


def rank(session: Session, at: datetime) -> int:
    """How many revisions of the history come before a place in their order."""
    earlier = select(func.count()).select_from(Revision).where(Revision.ordered_at < at, IN_HISTORY)
    return session.execute(earlier).scalar_one()


def latest(session: Session) -> str | None:
    """The newest revision of the history; None before the first."""
    newest = (
        select(Revision.name)
        .where(IN_HISTORY)
        .order_by(Revision.ordered_at.desc(), Revision.name.desc())
    )
    return session.scalars(newest.limit(1)).first()
