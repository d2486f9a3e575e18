"""A series as findings look at it: its name, its analysis and its newest points."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np

from benchmarks.contracts import Direction
from service.analysis.detection.change import ChangePoint, Noise
from service.analysis.detection.history import History, transform
from service.analysis.statement import Statement
from service.models import ChangeRow
from service.schemas.series import SeriesName

EDGE = 3
"""Points by which the detector may place a change beside its edge. Within one analysis, so less
than ``SAME``: that is how far two analyses may place one change apart."""


@dataclass(frozen=True, slots=True)
class PlacedChange:
    """A change of level, and the points on both sides of it."""

    change: ChangePoint
    """``index`` counts the analysed points of the series, excluded and disturbed ones left out."""
    last_good: str
    """Revision of the last point of the old level."""
    first_bad: str
    """Revision of the first point of the new level."""
    first_bad_at: datetime
    first_bad_result: str
    """The first point itself."""

    id: str = ""
    """Of its row, by which findings and pages refer to it; empty until it has one."""

    @classmethod
    def of(cls, row: ChangeRow) -> Self:
        """As it is stored."""
        return cls(estimate_of(row), **row.fields_of(cls))


def estimate_of(row: ChangeRow) -> ChangePoint:
    """Read the change point of a stored change."""
    return ChangePoint(**row.estimate)


@dataclass(frozen=True, slots=True)
class SeriesAnalysis:
    """The changes and the noise of a series, as analysed so far."""

    series_id: str
    points: int
    """Analysed points; what was excluded or disturbed does not count."""
    changes: tuple[PlacedChange, ...]
    noise: Noise | None
    """Of the newest level; None if there are too few points to tell."""
    warnings: tuple[Statement, ...]
    analysed_at: datetime | None
    """None if the series has not been analysed yet."""

    @property
    def machine_offsets(self) -> dict[str, float]:
        """The offset of each machine from the others, as a share; empty if it is not known."""
        return self.noise.machine_offsets if self.noise else {}


def noise_document(noise: Noise | None) -> dict[str, Any] | None:
    """As it is stored: JSON knows no infinity, so an effect that nobody could see is null."""
    if noise is None:
        return None
    document = asdict(noise)
    if math.isinf(noise.minimum_detectable_effect):
        document["minimum_detectable_effect"] = None
    return document


def noise_of(document: dict[str, Any] | None) -> Noise | None:
    """As it was stored."""
    if document is None:
        return None
    effect = document["minimum_detectable_effect"]
    return Noise(**document | {"minimum_detectable_effect": math.inf if effect is None else effect})


def place(tail: RecentPoints, change: ChangePoint, noise: Noise | None) -> PlacedChange:
    """Name the revisions on both sides of a change; ``noise`` says how the machines differ."""
    at = change.index - tail.first
    # Of two modes either may lie at either level: single points tell nothing that the detector,
    # which takes the modes apart, has not seen better.
    if noise is None or not noise.mode_distance:
        offsets = noise.machine_offsets if noise else {}
        at = _edge(without_worker_offset(tail, offsets), at, change)
    return between(tail, change, at)


def between(tail: RecentPoints, change: ChangePoint, at: int) -> PlacedChange:
    """Name the revisions on both sides of the point at ``at`` in ``tail``."""
    last_good, first_bad = tail.points[at - 1 : at + 1]
    return PlacedChange(
        change=change,
        last_good=last_good.revision,
        first_bad=first_bad.revision,
        first_bad_at=first_bad.revision_at,
        first_bad_result=first_bad.result_id,
    )


def _edge(values: Sequence[float], at: int, change: ChangePoint) -> int:
    """Place in ``values`` of the first one that lies nearer to the new level.

    With few points after it, a large step is pulled back like an outlier until they are enough,
    which may place it a point or two beside the one that anybody would name.
    """

    def new(place: int) -> bool:
        return abs(values[place] - change.after) < abs(values[place] - change.before)

    low, high = max(1, at - EDGE), min(len(values) - 1, at + EDGE)
    while at > low and new(at - 1):
        at -= 1
    while at < high and not new(at):
        at += 1
    return at


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
    low: float | None = None
    high: float | None = None
    interval: str = "none"
    replicates: int = 1
    within: float | None = None

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


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """A series with its analysis and its newest points."""

    series: SeriesName
    analysis: SeriesAnalysis
    recent: RecentPoints
    values: tuple[float, ...]
    """Of the newest points, without the offsets of their machines."""
