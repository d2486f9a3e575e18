"""Estimates how much equal runs of a series differ, from its own history.

One process has no interval that says where the next one will fall. The history of its series has
seen many: what is left around its level is that noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scipy.special import stdtrit
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.history.queries import COUNTED
from service.history.series_history import noise_of
from service.models import AnalysisRow, Point

MOST_FREEDOM = 30
"""Degrees of freedom that a noise is given at most: histories wander, and old points say little of
the newest stretch."""
AT_ONCE = 500
"""Series asked for in one statement."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The noise of single points around the level of their series."""

    deviation: float
    """Standard deviation of a point, as a share of its value."""
    processes: float
    """How many processes a point rests on, in the mean."""
    points: int
    """Analysed points that this is known from."""
    apart: float = 0.0
    """How far a second mode lies, as a share; zero without one."""
    offsets: Mapping[str, float] = field(default_factory=dict)
    """How far each worker lies from the others, as a share."""

    def reach(self, processes: int, confidence: float) -> float:
        """Half-width of the interval of a value out of so many processes, as a share of it.

        Fewer processes than the history's points have are noisier at most by the root of the ratio;
        more are not taken to be quieter, for they may share what differs from night to night.
        """
        freedom = max(1, min(self.points, MOST_FREEDOM) - 1)
        few = math.sqrt(max(1.0, self.processes / processes))
        quantile = float(stdtrit(freedom, 0.5 + confidence / 2))
        return quantile * self.deviation * few + self.apart / 2

    def between(self, one: str, other: str) -> float:
        """Give the distance between two workers, as a share."""
        return abs(self.offsets.get(one, 0.0) - self.offsets.get(other, 0.0))


def repeats_of(session: Session, series: Sequence[str]) -> dict[str, Repeats]:
    """The noise of each of these series that is known, by id.

    A series with zeros or both signs has no shares, and is left out.
    """
    by_series: dict[str, Repeats] = {}
    for start in range(0, len(series), AT_ONCE):
        some = series[start : start + AT_ONCE]
        rows = session.scalars(select(AnalysisRow).where(AnalysisRow.series_id.in_(some)))
        processes = _processes(session, some)
        for row in rows:
            noise = noise_of(row.noise)
            if noise is None or noise.typical_size is not None:
                continue
            by_series[row.series_id] = Repeats(
                deviation=noise.scale,
                processes=processes.get(row.series_id, 1.0),
                points=row.points,
                apart=noise.mode_distance,
                offsets=noise.machine_offsets,
            )
    return by_series


def _processes(session: Session, series: Sequence[str]) -> dict[str, float]:
    query = (
        select(Point.series_id, func.avg(Point.replicates))
        .where(Point.series_id.in_(series), *COUNTED)
        .group_by(Point.series_id)
    )
    return {series_id: float(mean) for series_id, mean in session.execute(query)}
