"""One stretch of history: the explanation that needs the fewest words.

Out of its points come, in turn, the offsets of machines, a second mode and a slow slope.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from service.analysis.detection.modes import with_modes
from service.analysis.detection.pruning import THRESHOLD
from service.analysis.detection.robust import Floats, Ints, running_median, spread
from service.analysis.detection.segment_model import Explanation, explain, levels, settled

FEW_POINTS = 4
"""A median of fewer points says more about them than about their machine."""
OFFSET_ROUNDS, SETTLED = 12, 0.02
"""Offsets pull the running median, which must be taken again until it moves by no more than this
share of the spread; far machines need a dozen rounds."""


def machine_offsets(y: Floats, groups: Ints, count: int) -> Floats:
    """The offset of each of ``count`` groups from what was measured around its points.

    A machine that took over from another at one point in time has no neighbours to differ from:
    its offset stays zero, and the change is seen as the change that it is.
    """
    totals = np.zeros(count)
    members = [np.flatnonzero(groups == group) for group in range(count)]
    members = [points if len(points) >= FEW_POINTS else points[:0] for points in members]
    if sum(len(points) > 0 for points in members) < 2:
        return totals
    for _ in range(OFFSET_ROUNDS):
        level = y - totals[groups]
        residuals = level - running_median(level)
        moves = [float(np.median(residuals[points])) if len(points) else 0.0 for points in members]
        totals += moves
        if max(map(abs, moves)) <= SETTLED * spread(residuals):
            break
    return totals


SLOPED_POINTS = 60
PRICE = 12.0
"""Squared noise per change or slope when explanations are compared: twice the nats of a change."""
TILTED = 3.0
"""Standard errors of the slope between changes below which nothing drifts, and time is saved."""
UNSETTLED = 12
"""Newest points without which a slope must show as well: a fresh step that is no level of its own
yet looks like the far end of one, and would move every older effect. 8 to 20 serve alike."""
SLOPE_ROUNDS = 2
"""First a line through everything, then a line through what its changes leave."""


def with_drift(plain: Explanation, threshold: float) -> Explanation | None:
    """``plain`` explained with a slope; None if steps alone are as good. Steps are needed first."""
    if len(plain.y) < SLOPED_POINTS or not plain.changes or not _tilts(plain):
        return None
    positions = np.arange(len(plain.y)) - (len(plain.y) - 1) / 2
    sloped = replace(plain, changes=())
    for _ in range(SLOPE_ROUNDS):
        slope = common_slope(plain.y, sloped.places)
        sloped = settled(replace(plain, y=plain.y - slope * positions), threshold)
    with_slope = _squares(sloped)
    without = _squares(plain)
    variance = min(with_slope, without) / len(plain.y)
    saved = without - with_slope + PRICE * variance * (len(plain.changes) - len(sloped.changes) - 1)
    return replace(sloped, drift=slope) if saved > 0 else None


def common_slope(y: Floats, places: list[int]) -> float:
    """The one slope, per point, that fits all levels best."""
    positions = np.arange(len(y), dtype=np.float64)
    centred = positions - levels(positions, places)
    power = float(centred @ centred)
    return float(centred @ y) / power if power else 0.0


def _tilts(plain: Explanation) -> bool:
    whole, settled_part = (_tilt(plain, len(plain.y) - less) for less in (0, UNSETTLED))
    return min(whole, settled_part) > TILTED or max(whole, settled_part) < -TILTED


def _tilt(plain: Explanation, count: int) -> float:
    y, places = plain.y[:count], [place for place in plain.places if place < count]
    positions = np.arange(count, dtype=np.float64)
    centred = positions - levels(positions, places)
    error = plain.noise.scale / np.sqrt(max(float(centred @ centred), 1.0))
    return common_slope(y, places) / float(error)


def _squares(explained: Explanation) -> float:
    residuals = explained.y - levels(explained.y, explained.places)
    return float(residuals @ residuals)


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A stretch and how it is explained; places count from its first point."""

    explained: Explanation
    offsets: dict[int, float]
    """By the number of each machine in the stretch; empty where machines are not told."""


def explain_window(y: Floats, groups: Ints | None = None, threshold: float = THRESHOLD) -> Window:
    """Explain ``y``, which is on the scale of ``history.Scale``."""
    offsets: dict[int, float] = {}
    if groups is not None:
        # A long history may know more machines than points: those of the stretch are counted anew.
        present, numbers = np.unique(groups, return_inverse=True)
        by_number = machine_offsets(y, numbers, len(present))
        offsets = dict(zip(present.tolist(), by_number.tolist(), strict=True))
        y = y - by_number[numbers]
    plain = explain(y, threshold)
    best = with_modes(y, plain, threshold) or plain
    return Window(with_drift(best, threshold) or best, offsets)
