"""Takes results out of their histories with a reason, and puts them back.

Nothing is deleted: an excluded result is shown, in its place, and analysed no more. The point of a
case goes with any of its replicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, exists, select, update
from sqlalchemy.orm import Session

from service.database.session import new_id
from service.history import pending, replicates
from service.models import Exclusion, ImportedPoint, Point, ResultRow, Revision
from service.models.results import FAILED
from service.schemas.errors import Conflict, NotFound


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


_IMPORTED = "It was imported: only what is measured here can be taken out of its history."
_NONE = "There is no such result; GET /api/v1/results lists them."


def exclude(
    session: Session, result_id: str, reason: str, actor: str, now: datetime
) -> ExclusionView:
    """Take a result out of its histories.

    Raises:
        NotFound: there is no such result.
        Conflict: it is out already.
    """
    parts = _lock(session, result_id)
    if _active(session, parts) is not None:
        raise Conflict("This result is excluded already; DELETE undoes it.")
    row = Exclusion(
        id=new_id(now), result_id=result_id, reason=reason, actor=actor, excluded_at=now
    )
    session.add(row)
    session.flush()
    _mark(session, parts, now)
    return _view(row)


def include(session: Session, result_id: str, actor: str, now: datetime) -> ExclusionView:
    """Put an excluded result back.

    Raises:
        NotFound: there is no such result, or it is not excluded.
    """
    parts = _lock(session, result_id)
    row = _active(session, parts)
    if row is None:
        raise NotFound("This result is not excluded.")
    row.undone_at, row.undone_by = now, actor
    session.flush()
    _mark(session, parts, now)
    return _view(row)


def exclusions_of(session: Session, result_id: str) -> list[ExclusionView]:
    """Every exclusion that the point of a result has seen, the first first.

    Raises:
        NotFound: there is no such result.
    """
    if session.execute(select(ResultRow.id).where(ResultRow.id == result_id)).first() is None:
        raise NotFound(_NONE)
    rows = select(Exclusion).where(Exclusion.result_id.in_(replicates.part_of(session, result_id)))
    return [_view(row) for row in session.scalars(rows.order_by(Exclusion.id))]


def _lock(session: Session, result_id: str) -> list[str]:
    parts = replicates.part_of(session, result_id)
    if session.get(ResultRow, parts[0], with_for_update=True) is None:
        imported = session.get(ImportedPoint, result_id) is not None
        raise NotFound(_IMPORTED if imported else _NONE)
    return parts


def _active(session: Session, parts: Sequence[str]) -> Exclusion | None:
    rows = select(Exclusion).where(Exclusion.result_id.in_(parts), Exclusion.undone_at.is_(None))
    return session.scalars(rows).first()


def _mark(session: Session, parts: Sequence[str], now: datetime) -> None:
    for place in apply(session, parts) or _failed(session, parts):
        pending.mark_pending(session, now, place.revision, place.revision_at, place.result_id)


def _failed(session: Session, parts: Sequence[str]) -> Sequence[Row[str, str, datetime]]:
    """The place of a failure: whether it counts is news too."""
    result_id, at = ResultRow.id.label("result_id"), Revision.ordered_at.label("revision_at")
    query = select(result_id, ResultRow.revision, at)
    query = query.join(Revision, Revision.name == ResultRow.revision)
    return session.execute(query.where(ResultRow.id.in_(parts), FAILED).limit(1)).all()


def apply(session: Session, parts: Sequence[str]) -> Sequence[Row[str, str, datetime]]:
    """Take the point of these replicates out of its series if one of them is excluded, else back.

    Returns the result, the revision and its time of a point that changed; none where none did, as
    of a failed result or one for a comparison.
    """
    if not parts:
        return []
    out = exists().where(Exclusion.result_id.in_(parts), Exclusion.undone_at.is_(None))
    changed = update(Point).where(Point.result_id.in_(parts), Point.excluded != out)
    statement = changed.values(excluded=out).returning(
        Point.result_id, Point.revision, Point.revision_at
    )
    points = session.execute(statement, execution_options={"synchronize_session": False}).all()
    return points[:1]


def _view(row: Exclusion) -> ExclusionView:
    return ExclusionView(**row.fields_of(ExclusionView))
