"""How much the values of a series vary, from its own history: made when a series is analysed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.analysis.detection.change import ChangePoint
from service.analysis.detection.windows import LEAST_POINTS
from service.analysis.summary import NORMAL_95, half_width_factor
from service.analysis.variance import REACH, MeasuredPoint, Spread, spread_of
from service.database.paging import batched
from service.history.series_history import RecentPoint, RecentPoints
from service.models import AnalysisRow


def spread_document(tail: RecentPoints, changes: Sequence[ChangePoint]) -> dict[str, Any] | None:
    """Estimate how the newest points of a series vary between its changes, as it is stored."""
    newest = list(enumerate(tail.points, tail.first))[-REACH:]
    spread = spread_of(
        [
            _measured(point, sum(change.index <= number for change in changes))
            for number, point in newest
        ]
    )
    return None if spread is None else asdict(spread)


def spreads_of(
    session: Session, series: Sequence[str], least: int = LEAST_POINTS
) -> dict[str, Spread]:
    """Read how values vary in each of these series, by id.

    Those with fewer than ``least`` points are left out, for a change would pass for noise in them;
    so are those with zeros or both signs, which have no shares.
    """
    return dict(_stored(session, series, least))


def _stored(session: Session, series: Sequence[str], least: int) -> Iterator[tuple[str, Spread]]:
    for ids in batched(series):
        some = AnalysisRow.series_id.in_(ids)
        query = select(AnalysisRow).where(some, AnalysisRow.points >= least)
        for row in session.scalars(query):
            if row.spread is not None:
                yield row.series_id, Spread.of(row.spread)


def _measured(point: RecentPoint, level: int) -> MeasuredPoint:
    """Read Student's interval of a point backwards: how its processes and their steps vary."""
    between, size = None, abs(point.value) or 1.0  # a value of zero has no shares
    if point.interval == "replicates" and point.low is not None and point.high is not None:
        half = (point.high - point.low) / 2
        between = half / half_width_factor(point.replicates) / size
    return MeasuredPoint(
        value=point.value,
        processes=point.replicates,
        between=between,
        within=None if point.within is None else point.within / NORMAL_95 / size,
        node=point.worker,
        at=point.measured_at,
        level=level,
    )
