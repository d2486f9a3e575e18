"""Takes results out of their histories with a reason, and puts them back.

Nothing is deleted: an excluded result is shown, in its place, and judged no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.database.ids import new_id
from service.errors import Conflict, NotFound
from service.history import pending
from service.models import Exclusion, Point, ResultRow


@dataclass(frozen=True, slots=True)
class ExclusionView:
    """The exclusion of a result: its author, time and reason, and who undid it."""

    id: str
    result_id: str
    reason: str
    actor: str
    excluded_at: datetime
    undone_at: datetime | None
    undone_by: str | None


_NONE = "There is no such result; GET /api/v1/results lists them."


def exclude(
    session: Session, result_id: str, reason: str, actor: str, now: datetime
) -> ExclusionView:
    """Take a result out of its histories.

    Raises:
        NotFound: there is no such result.
        Conflict: it is out already.
    """
    _lock(session, result_id)
    if _active(session, result_id) is not None:
        raise Conflict("This result is excluded already; DELETE undoes it.")
    row = Exclusion(
        id=new_id(now), result_id=result_id, reason=reason, actor=actor, excluded_at=now
    )
    session.add(row)
    _mark(session, result_id, now, excluded=True)
    session.flush()
    return _view(row)


def include(session: Session, result_id: str, actor: str, now: datetime) -> ExclusionView:
    """Put an excluded result back.

    Raises:
        NotFound: there is no such result, or it is not excluded.
    """
    _lock(session, result_id)
    row = _active(session, result_id)
    if row is None:
        raise NotFound("This result is not excluded.")
    row.undone_at, row.undone_by = now, actor
    _mark(session, result_id, now, excluded=False)
    session.flush()
    return _view(row)


def exclusions_of(session: Session, result_id: str) -> list[ExclusionView]:
    """Every exclusion that a result has seen, the first first.

    Raises:
        NotFound: there is no such result.
    """
    if session.execute(select(ResultRow.id).where(ResultRow.id == result_id)).first() is None:
        raise NotFound(_NONE)
    rows = select(Exclusion).where(Exclusion.result_id == result_id).order_by(Exclusion.id)
    return [_view(row) for row in session.scalars(rows)]


def _lock(session: Session, result_id: str) -> None:
    """Two people who exclude one result do so one after the other."""
    if session.get(ResultRow, result_id, with_for_update=True) is None:
        raise NotFound(_NONE)


def _active(session: Session, result_id: str) -> Exclusion | None:
    rows = select(Exclusion).where(Exclusion.result_id == result_id, Exclusion.undone_at.is_(None))
    return session.scalars(rows).first()


def _mark(session: Session, result_id: str, now: datetime, *, excluded: bool) -> None:
    points = Point.result_id == result_id
    place = session.execute(select(Point.revision, Point.revision_at).where(points)).first()
    if place is None:  # a failed result, or one for a comparison: in no history
        return
    changed = update(Point).where(points).values(excluded=excluded)
    session.execute(changed.execution_options(synchronize_session=False))
    pending.mark_pending(session, now, place.revision, place.revision_at, result_id)


def _view(row: Exclusion) -> ExclusionView:
    return ExclusionView(
        id=row.id,
        result_id=row.result_id,
        reason=row.reason,
        actor=row.actor,
        excluded_at=row.excluded_at,
        undone_at=row.undone_at,
        undone_by=row.undone_by,
    )
