"""The end of a series: its newest points, as analysis takes them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from benchmarks.contracts import Direction
from service.analysis.detection.history import History, transform

NOTHING_LEFT = -0.99
"""An offset, as a share, beyond which a machine is not slower or faster but does something else."""
Place = tuple[datetime, str, datetime]
"""Where a point lies: the place of its revision, its name, and when it was measured there."""
FIRST = datetime.min.replace(tzinfo=UTC)
"""Before any measurement."""


@dataclass(frozen=True, slots=True)
class RecentPoint:
    """The part of a point that analysis needs."""

    result_id: str
    revision: str
    revision_at: datetime
    value: float
    worker: str
    measured_at: datetime

    @property
    def place(self) -> Place:
        """The place of the point among those of any series."""
        return self.revision_at, self.revision, self.measured_at


@dataclass(frozen=True, slots=True)
class RecentPoints:
    """The end of a series: its points from number ``first`` on, without those that do not count."""

    series_id: str
    direction: Direction
    first: int
    points: tuple[RecentPoint, ...]

    @property
    def typical_size(self) -> float | None:
        """The size that effects and offsets are shares of; None if it is the value itself."""
        return transform(np.array([point.value for point in self.points]))[1].typical_size

    def index_of(self, at: datetime) -> int | None:
        """Number of the first point at or after a place in the order; None if it lies before."""
        return self.index_at((at, "", FIRST))

    def index_at(self, place: Place) -> int | None:
        """Number of the first point at or after a place; None if it lies before."""
        if self.first and (not self.points or place[0] < self.points[0].revision_at):
            return None
        return self.first + bisect_left(self.points, place, key=lambda point: point.place)

    def number_of(self, result_id: str) -> int | None:
        """Number of a result's point; None if it does not count or lies before."""
        numbered = enumerate(self.points, self.first)
        return next((at for at, point in numbered if point.result_id == result_id), None)

    def place_of(self, result_id: str, at: datetime) -> int | None:
        """Number of a point; of the first one at its place if it does not count or lies before."""
        number = self.number_of(result_id)
        return self.index_of(at) if number is None else number

    @property
    def history(self) -> History:
        """As a detector takes it; a worker is a machine.

        Raises:
            Refused: a value that cannot be analysed.
        """
        values = [point.value for point in self.points]
        workers = [point.worker for point in self.points]
        return History.of(values, self.direction, workers)


def _own(value: float, worker: str, offsets: Mapping[str, float], size: float | None) -> float:
    offset = offsets.get(worker, 0.0)
    if size is not None:
        return value - offset * size
    return value / (1.0 + offset) if offset > NOTHING_LEFT else value


def without_worker_offset(tail: RecentPoints, offsets: Mapping[str, float]) -> tuple[float, ...]:
    """Give the value of each point without its machine's offset."""
    size = tail.typical_size
    return tuple(_own(point.value, point.worker, offsets, size) for point in tail.points)
