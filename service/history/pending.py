"""Stores the changes of histories that wait to be analysed.

A row is written in the transaction of the change itself, so a service that dies in between analyses
after its restart. Rows are only inserted and deleted: results that arrive together never wait for
each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import Table, delete, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from service.database.prepared import Runner, inserting
from service.database.session import new_id
from service.models import PendingAnalysis, Point

_PENDING = cast(Table, PendingAnalysis.__table__)
TOGETHER = 200
"""Changes that are looked at in one go: a night's results of one series are analysed once."""


@dataclass(frozen=True, slots=True)
class PendingSeries:
    """Changes that wait, and since where each series has to be analysed again."""

    notes: tuple[str, ...]
    since: dict[str, datetime]
    """By series: the earliest place in the order of revisions that changed."""


def mark_pending(
    on: Runner, now: datetime, revision: str, since: datetime, result_id: str | None = None
) -> None:
    """Write down that points of ``revision`` changed, or those of one result of it."""
    row = {"id": new_id(now), "revision": revision, "result_id": result_id, "since": since}
    inserting(_PENDING, *row).run(on, **row)


def pending_series(session: Session) -> PendingSeries:
    """The oldest changes that wait."""
    columns = (
        PendingAnalysis.id,
        PendingAnalysis.revision,
        PendingAnalysis.result_id,
        PendingAnalysis.since,
    )
    notes = session.execute(select(*columns).order_by(PendingAnalysis.id).limit(TOGETHER)).all()
    results: dict[str, datetime] = {}
    revisions: dict[str, datetime] = {}
    for note in notes:
        name = note.result_id or note.revision
        places = results if note.result_id else revisions
        places[name] = min(note.since, places.get(name, note.since))
    since: dict[str, datetime] = {}
    for column, places in ((Point.result_id, results), (Point.revision, revisions)):
        for name, series_id in _holding(session, column, list(places)):
            since[series_id] = min(places[name], since.get(series_id, places[name]))
    return PendingSeries(tuple(note.id for note in notes), since)


def _holding(
    session: Session, column: InstrumentedAttribute[str], names: Sequence[str]
) -> list[tuple[str, str]]:
    """The series that hold points of some results or of whole revisions, each by its name."""
    if not names:
        return []
    query = select(column, Point.series_id).where(column.in_(names)).distinct()
    return [(name, series_id) for name, series_id in session.execute(query)]


def clear_pending(session: Session, notes: Sequence[str]) -> None:
    """Take away what has been analysed."""
    session.execute(delete(PendingAnalysis).where(PendingAnalysis.id.in_(notes)))
