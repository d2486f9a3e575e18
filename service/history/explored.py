"""Reads of many long histories at once: every point in outline, and those that are drawn whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import JSON, ColumnElement, Label, and_, func, literal, select, tuple_
from sqlalchemy.orm import Session

from service.history.queries import (
    COUNTED,
    NEWEST_FIRST,
    POINT_ORDER,
    WORKER,
    name_of,
    points_where,
)
from service.models import Point, SeriesRow, UtcDateTime
from service.schemas.series import SeriesName, SeriesPoint

_GATHERED: Mapping[str, Callable[[ColumnElement[Any]], ColumnElement[Any]]] = {
    "sqlite": lambda column: func.json_group_array(column, type_=JSON()),
    "postgresql": func.array_agg,
}
"""All values of a column as one."""
MOST_LOOKED_AT = 5_000
"""Series of some metrics among which a page looks for those that were asked for."""


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """The part of each history that is looked at. None and nothing: all of it."""

    since: datetime | None = None
    until: datetime | None = None
    workers: tuple[str, ...] = ()

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """Conditions on points."""
        return [
            *([Point.revision_at >= self.since] if self.since else []),
            *([Point.revision_at <= self.until] if self.until else []),
            *([func.coalesce(Point.worker, "").in_(self.workers)] if self.workers else []),
        ]


@dataclass(frozen=True, slots=True)
class Outline:
    """All points of a series in their order, as far as it takes to choose which are drawn."""

    ids: Sequence[str]
    """Results."""
    values: NDArray[np.float64]
    counts: NDArray[np.bool_]
    """Whether the point is analysed and compared."""
    workers: Sequence[str]
    environments: Sequence[str]


def series_of_metrics(session: Session, metrics: Iterable[str]) -> list[SeriesName]:
    """Name the series of some metrics, the oldest first."""
    query = select(SeriesRow).where(SeriesRow.metric.in_(list(metrics)))
    oldest = query.order_by(SeriesRow.created_at, SeriesRow.id).limit(MOST_LOOKED_AT)
    return [name_of(row) for row in session.scalars(oldest)]


def named_series(session: Session, series_ids: Sequence[str]) -> list[SeriesName]:
    """Name those of these series that there are."""
    query = select(SeriesRow).where(SeriesRow.id.in_(series_ids))
    return [name_of(row) for row in session.scalars(query)]


def count_points(session: Session, series_ids: Sequence[str], part: HistoryPart) -> int:
    """Count the points that there are in a part of these histories."""
    query = select(func.count()).select_from(Point)
    return session.scalar(query.where(Point.series_id.in_(series_ids), *part.conditions)) or 0


def points_in(session: Session, series_id: str, part: HistoryPart) -> list[SeriesPoint]:
    """Read every point of a series in a part of its history."""
    return points_where(session, Point.series_id == series_id, *part.conditions)


def outlines(session: Session, series_ids: Sequence[str], part: HistoryPart) -> dict[str, Outline]:
    """Read the outline of each of these series that has a point in this part of its history.

    The database gathers each column into one value: a row for each of 200,000 points would take
    five times as long.
    """
    gathered = _GATHERED[session.get_bind().dialect.name]
    columns = (Point.result_id, Point.value, and_(*COUNTED), WORKER, Point.environment)
    named: list[Label[Any]] = [one.label(f"c{place}") for place, one in enumerate(columns)]
    found = {}
    for series_id in series_ids:
        here = Point.series_id == series_id, *part.conditions
        points = select(*named).where(*here).order_by(*POINT_ORDER).subquery()
        row = session.execute(select(*map(gathered, points.c))).one()
        if row[0]:
            ids, values, counts, workers, environments = row
            found[series_id] = Outline(
                ids, np.array(values), np.array(counts, dtype=np.bool_), workers, environments
            )
    return found


def places(session: Session, series_ids: Sequence[str], part: HistoryPart) -> list[str]:
    """Name the revisions of these histories in their order."""
    place = Point.revision_at, Point.revision
    query = select(*place).where(Point.series_id.in_(series_ids), *part.conditions)
    return [name for _, name in session.execute(query.distinct().order_by(*place))]


def before(session: Session, series_id: str, at: datetime, part: HistoryPart) -> int:
    """Count the points of a series before a place in the order of revisions."""
    query = select(func.count()).select_from(Point).where(Point.series_id == series_id)
    return session.scalar(query.where(Point.revision_at < at, *part.conditions)) or 0


def results_at(session: Session, series_ids: Sequence[str], revision: str) -> set[str]:
    """The results of these series at one revision."""
    of_some = Point.series_id.in_(series_ids), Point.revision == revision
    return set(session.scalars(select(Point.result_id).where(*of_some)))


def beside(session: Session, series_id: str, point: SeriesPoint, *, later: bool) -> str:
    """The result of the next point of a series, or of the one before; empty if there is none."""
    here = point.revision_at, point.revision, point.measured_at, point.result_id
    place, values = tuple_(*POINT_ORDER), [literal(one) for one in here]
    values[0] = literal(here[0], UtcDateTime())
    values[2] = literal(here[2], UtcDateTime())
    order = POINT_ORDER if later else NEWEST_FIRST
    there = place > tuple_(*values) if later else place < tuple_(*values)
    query = select(Point.result_id).where(Point.series_id == series_id, there)
    return session.scalar(query.order_by(*order).limit(1)) or ""


def last_counted_before(session: Session, series_id: str, at: datetime) -> str:
    """The result of the last analysed point before a place in the order; empty if there is none."""
    query = select(Point.result_id).where(
        Point.series_id == series_id, Point.revision_at < at, *COUNTED
    )
    return session.scalar(query.order_by(*NEWEST_FIRST).limit(1)) or ""
