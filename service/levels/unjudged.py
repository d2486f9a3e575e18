"""What changed histories and waits to be judged.

A row is written in the transaction of the change itself, so a service that dies in between judges
after its restart. Rows are only inserted and deleted: results that arrive together never wait for
each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import Table, delete, insert, select
from sqlalchemy.orm import Session

from service.ids import new_id
from service.models import Point, Unjudged

_NOTE = insert(cast(Table, Unjudged.__table__))
TOGETHER = 200
"""Changes that are looked at in one go: a night's results of one series are judged once."""


@dataclass(frozen=True, slots=True)
class Due:
    """Changes that wait, and since where each series has to be judged again."""

    notes: tuple[str, ...]
    since: dict[str, datetime]
    """By series: the earliest place in the order of revisions that changed."""


def note(
    session: Session,
    now: datetime,
    revision: str,
    since: datetime,
    result_id: str | None = None,
) -> None:
    """Write down that points of ``revision`` changed, or those of one result of it."""
    row = {"id": new_id(now), "revision": revision, "result_id": result_id, "since": since}
    session.execute(_NOTE, row)


def due(session: Session) -> Due:
    """The oldest changes that wait."""
    rows = session.scalars(select(Unjudged).order_by(Unjudged.id).limit(TOGETHER)).all()
    since: dict[str, datetime] = {}
    for row in rows:
        for series_id in changed(session, row.revision, row.result_id):
            since[series_id] = min(row.since, since.get(series_id, row.since))
    return Due(tuple(row.id for row in rows), since)


def changed(session: Session, revision: str, result_id: str | None) -> Sequence[str]:
    """The series that hold points of a result, or of a whole revision."""
    which = Point.revision == revision if result_id is None else Point.result_id == result_id
    return session.scalars(select(Point.series_id).where(which).distinct()).all()


def judged(session: Session, notes: Sequence[str]) -> None:
    """Take away what has been judged."""
    session.execute(delete(Unjudged).where(Unjudged.id.in_(notes)))
