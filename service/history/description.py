"""Describes the analysis of a series for its page and the API, and what it takes to see more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy.orm import Session

from service.analysis import variance
from service.analysis.detection.change import Noise
from service.analysis.detection.sample_size import needed
from service.history.analysis import load_analysis
from service.history.run_noise import spreads_of
from service.history.series_history import PlacedChange, noise_document
from service.schemas.series import Series, SeriesPoint
from service.wording import formats, intervals
from service.wording.statements import say


@dataclass(frozen=True, slots=True)
class NoiseView:
    """The noise of the newest level; shares of the value, or of `typical_size`."""

    scale: float
    autocorrelation: float
    minimum_detectable_effect: float | None
    """Found four times of five once ten points have been seen; null if nobody could see any."""
    mode_distance: float
    drift_per_point: float
    machine_offsets: dict[str, float]
    typical_size: float | None
    """What the others are shares of if the series has zeros or both signs; null: of the value."""


@dataclass(frozen=True, slots=True)
class SpreadView:
    """How values vary around the newest level, and what the next night will show of it."""

    parts: dict[str, variance.Component]
    """The standard deviation that ``step``, ``process``, ``night`` and ``node`` add, as shares of
    the value. A cause without a part is unknown, or cannot be told apart from another that names
    it, such as ``process and night``."""
    level: float
    next_low: float | None
    next_high: float | None
    """95 % interval of the next night's mean, of as many processes as the newest point has; null
    if one night alone is known."""
    next_on: str
    """Which node that night is on."""
    sentence: str
    """What the interval holds and what is not known of it."""


@dataclass(frozen=True, slots=True)
class NeedView:
    """The number of processes that it takes to see ``target``."""

    target: float
    replicates: int | None
    """Processes for each point; None if no number of them would do, or if nobody can say."""
    reason: str
    """One sentence for a person."""


@dataclass(frozen=True, slots=True)
class AnalysisView:
    """The changes of a series' level, and what the series can and cannot show."""

    series_id: str
    points: int
    analysed_at: datetime | None
    """Null if it has not been analysed yet."""
    changes: tuple[PlacedChange, ...]
    noise: NoiseView | None
    spread: SpreadView | None
    """Null where it was not analysed, or has zeros or both signs."""
    one_percent: NeedView
    """What it takes to see a change of one per cent."""
    disturbed: int
    """Points that are shown and not analysed, because their device was disturbed."""
    warnings: tuple[str, ...]


def describe(session: Session, series: Series) -> AnalysisView:
    """Describe the analysis of ``series``."""
    analysis = load_analysis(session, series.id)
    disturbed = [point for point in series.points if point.disturbed and not point.excluded]
    spread = spreads_of(session, [series.id], least=1).get(series.id)
    replicates = next((point.replicates for point in reversed(series.points) if point.counts), 1)
    need = needed(analysis.noise, spread, replicates)
    return AnalysisView(
        series_id=series.id,
        points=analysis.points,
        analysed_at=analysis.analysed_at,
        changes=analysis.changes,
        noise=_noise(analysis.noise),
        spread=None if spread is None else _spread(spread, replicates),
        one_percent=NeedView(need.target, need.replicates, say(need.reason)),
        disturbed=len(disturbed),
        warnings=(*map(say, analysis.warnings), *_left_out(disturbed, len(series.points))),
    )


def _left_out(disturbed: Sequence[SeriesPoint], points: int) -> Iterator[str]:
    """Say how many points are not analysed because their device was disturbed, and by what."""
    if disturbed:
        names = sorted({name for point in disturbed for name in point.disturbed.split(", ")})
        yield (
            f"{len(disturbed)} of {formats.counted(points, 'point')} were measured on a disturbed "
            f"device ({', '.join(names)}) and are shown, and not analysed."
        )


def _next_night(spread: variance.Spread, processes: int) -> tuple[float, float] | None:
    """Give the 95 % interval of the next night's mean, in the unit of the series."""
    reach = spread.next_night(processes)
    if reach is None:
        return None
    return spread.level * math.exp(-reach), spread.level * math.exp(reach)


def _spread(spread: variance.Spread, processes: int) -> SpreadView:
    low, high = _next_night(spread, processes) or (None, None)
    said = intervals.place(spread), intervals.next_night(spread)
    return SpreadView(spread.parts, spread.level, low, high, *said)


def _noise(noise: Noise | None) -> NoiseView | None:
    document = noise_document(noise)
    if document is None:
        return None
    return NoiseView(**{field.name: document[field.name] for field in fields(NoiseView)})
