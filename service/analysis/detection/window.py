"""One stretch of history: the explanation that needs the fewest words.

Out of its points come, in turn, the offsets of machines, a second mode and a slow slope.

Two-mode noise is a second level a fixed distance away that keeps coming and going: a cache that
fits or not, a boost clock that holds or not. A change of level does not come back; this does, at
least ``LEAST_JUMPS`` times. The distance is read from differences of neighbours, which a change of
level touches only once. Modes are believed only if telling them saves more words than it costs.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.analysis.detection import segment_model
from service.analysis.detection.robust import Floats, Ints, running_median, spread
from service.analysis.detection.support import NONE, Supports, facts, known_borders, with_returns

LEAST_POINTS = 40
LEAST_JUMPS = 8
"""Coming and going four times; a change and its reversal are two jumps."""
LONGEST_STAY = 14
"""Mean points between jumps; what stays longer is analysed as a level."""
LEAST_SEPARATION = 2.3
"""Distance over the spread of differences, from which jumps stand apart from noise."""
LEAST_SAVING = 10.0
"""Nats; odds of twenty thousand to one, as there is one try per stretch but many stretches."""
LONG, SURE, GRAIN = 12, 6.0, 4
"""Levels that modes are read against are long and sure, or they would follow the modes; where they
change exactly is found afterwards."""
READINGS = 2
"""Levels from modes, modes from levels, in turn; a third reading rarely changes a point."""
STEEPEST = 16.0
"""Squared noise beyond which a jump is an outlier, and not more unlikely still."""
EM_ROUNDS = 8

Flags = NDArray[np.bool_]


def with_modes(
    y: Floats, plain: segment_model.Explanation, threshold: float, supports: Supports = NONE
) -> segment_model.Explanation | None:
    """``y`` explained by levels, noise and two modes; None if that is no better than ``plain``."""
    if len(y) < LEAST_POINTS:
        return None
    distance, noise, share = jumps(y)
    if distance < LEAST_SEPARATION * noise or share * len(y) < LEAST_JUMPS:
        return None
    upper = follow(y, distance, noise, share)
    for _ in range(READINGS):
        if not _keeps_coming(upper):
            return None
        explained = segment_model.sketch(y - distance * upper, SURE, LONG, GRAIN)
        above = y - segment_model.medians(explained.y, explained.places)
        before, upper = upper, above > distance / 2
        if not _keeps_coming(upper):
            return None
        distance = float(np.median(above[upper]) - np.median(above[~upper]))
        if np.array_equal(before, upper):
            break
    without = y - distance * upper
    saved = (
        segment_model.words(y, plain) - segment_model.words(without, explained) - _telling(upper)
    )
    if saved < LEAST_SAVING:
        return None
    explained = replace(segment_model.explain(without, threshold, supports), mode_distance=distance)
    return _without_stays(explained, supports)


def jumps(y: Floats) -> tuple[float, float, float]:
    """Distance of the modes, spread of differences within a mode, share of jumps.

    Expectation maximisation for differences that are noise around zero or around plus or minus the
    distance.
    """
    steps = np.diff(y)
    low, high = np.quantile(steps, [0.02, 0.98])
    steps = steps[np.abs(steps) <= 2 * max(-low, high) + 1e-12]
    sizes = np.abs(steps)
    distance = float(np.quantile(sizes, 0.93))
    noise = float(np.quantile(sizes, 0.3)) / 0.385 + 1e-9  # that quantile of a normal
    share = 0.3
    for _ in range(EM_ROUNDS):
        weights = np.stack(
            [
                2 * (1 - share) * _bell(steps, 0.0, noise),
                share * _bell(steps, distance, noise),
                share * _bell(steps, -distance, noise),
            ]
        )
        still, up, down = weights / (weights.sum(axis=0) + 1e-300)
        share = min(max(float((up + down).mean()), 0.02), 0.6)
        distance = max(float((up - down) @ steps) / max(float((up + down).sum()), 1e-9), 1e-9)
        rest = still @ steps**2 + up @ (steps - distance) ** 2 + down @ (steps + distance) ** 2
        noise = max(math.sqrt(float(rest) / len(steps)), 1e-9)
    return distance, noise, share


def follow(y: Floats, distance: float, noise: float, share: float) -> Flags:
    """Mark the points in the upper mode, by the most likely path (Viterbi) through differences.

    A jump up is only possible from below, so errors do not add up; a change of level is one
    outlying difference.
    """
    steps, apart = np.diff(y) / noise, distance / noise
    stay = np.minimum(steps**2, STEEPEST) / 2 - math.log(1 - share)
    rise = np.minimum((steps - apart) ** 2, STEEPEST) / 2 - math.log(share)
    fall = np.minimum((steps + apart) ** 2, STEEPEST) / 2 - math.log(share)
    ahead = 0.0  # by how much the upper mode is the less likely one so far
    switched: list[tuple[bool, bool]] = []
    for s, r, f in zip(stay.tolist(), rise.tolist(), fall.tolist(), strict=True):
        down, up = ahead + f, ahead + s
        fell, rose = down < s, r < up
        switched.append((fell, rose))
        ahead = (r if rose else up) - (down if fell else s)
    path = np.zeros(len(y), dtype=bool)
    path[-1] = upper = ahead < 0.0
    for at in range(len(switched) - 1, -1, -1):
        upper = upper != switched[at][upper]
        path[at] = upper
    return path


def _without_stays(
    explained: segment_model.Explanation, supports: Supports
) -> segment_model.Explanation:
    """Drop pairs of changes, a mode's distance apart, around a stretch no longer than a stay."""
    kept, known = list(explained.changes), frozenset(facts(supports))
    at = 0
    while at + 1 < len(kept):
        borders = [0, *(place for place, _ in kept), len(explained.y)]
        before, there, after = (
            float(np.median(explained.y[borders[i] : borders[i + 1]])) for i in (at, at + 1, at + 2)
        )
        away = min(abs(there - before), abs(there - after)) / explained.mode_distance
        back = abs(after - before) < explained.mode_distance / 2
        fact = not known.isdisjoint(borders[at + 1 : at + 3])
        short = borders[at + 2] - borders[at + 1] <= LONGEST_STAY
        if short and not fact and back and 0.5 < away < 1.5:
            del kept[at : at + 2]
        else:
            at += 1
    return replace(explained, changes=tuple(kept))


def _keeps_coming(upper: Flags) -> bool:
    jumped = int(np.count_nonzero(upper[1:] != upper[:-1]))
    few = min(int(upper.sum()), int((~upper).sum()))
    return jumped >= max(LEAST_JUMPS, len(upper) / LONGEST_STAY) and few >= 3


def _telling(upper: Flags) -> float:
    jumped = float(np.mean(upper[1:] != upper[:-1]))
    return len(upper) * min(_entropy(jumped), _entropy(float(upper.mean())))


def _entropy(share: float) -> float:
    share = min(max(share, 1e-3), 1 - 1e-3)
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def _bell(x: Floats, middle: float, width: float) -> Floats:
    density: Floats = np.exp(-0.5 * ((x - middle) / width) ** 2)
    return density


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


def with_drift(
    plain: segment_model.Explanation, threshold: float, supports: Supports = NONE
) -> segment_model.Explanation | None:
    """``plain`` explained with a slope; None if steps alone are as good. Steps are needed first."""
    if len(plain.y) < SLOPED_POINTS or not plain.changes or not _tilts(plain):
        return None
    positions = np.arange(len(plain.y)) - (len(plain.y) - 1) / 2
    sloped = replace(plain, changes=())
    for _ in range(SLOPE_ROUNDS):
        slope = common_slope(plain.y, sloped.places)
        sloped = segment_model.settled(
            replace(plain, y=plain.y - slope * positions), threshold, supports
        )
    with_slope = _squares(sloped)
    without = _squares(plain)
    variance = min(with_slope, without) / len(plain.y)
    saved = without - with_slope + PRICE * variance * (len(plain.changes) - len(sloped.changes) - 1)
    return replace(sloped, drift=slope) if saved > 0 else None


def common_slope(y: Floats, places: list[int]) -> float:
    """The one slope, per point, that fits all levels best."""
    positions = np.arange(len(y), dtype=np.float64)
    centred = positions - segment_model.levels(positions, places)
    power = float(centred @ centred)
    return float(centred @ y) / power if power else 0.0


def _tilts(plain: segment_model.Explanation) -> bool:
    whole, settled_part = (_tilt(plain, len(plain.y) - less) for less in (0, UNSETTLED))
    return min(whole, settled_part) > TILTED or max(whole, settled_part) < -TILTED


def _tilt(plain: segment_model.Explanation, count: int) -> float:
    y, places = plain.y[:count], [place for place in plain.places if place < count]
    positions = np.arange(count, dtype=np.float64)
    centred = positions - segment_model.levels(positions, places)
    error = plain.noise.scale / np.sqrt(max(float(centred @ centred), 1.0))
    return common_slope(y, places) / float(error)


def _squares(explained: segment_model.Explanation) -> float:
    residuals = explained.y - segment_model.levels(explained.y, explained.places)
    return float(residuals @ residuals)


def explain_window(
    y: Floats,
    groups: Ints | None = None,
    threshold: float = segment_model.THRESHOLD,
    supports: Supports = NONE,
) -> segment_model.Explanation:
    """Explain ``y``, which is on the scale of ``history.Scale``, as ``supports`` are too."""
    offsets: dict[int, float] = {}
    if groups is not None:
        # A long history may know more machines than points: those of the stretch are counted anew.
        present, numbers = np.unique(groups, return_inverse=True)
        rest = y - segment_model.medians(y, known_borders(with_returns(y, supports)))
        by_number = machine_offsets(rest, numbers, len(present))
        offsets = dict(zip(present.tolist(), by_number.tolist(), strict=True))
        y = y - by_number[numbers]
    supports = with_returns(y, supports)
    plain = segment_model.explain(y, threshold, supports)
    best = with_modes(y, plain, threshold, supports) or plain
    return replace(with_drift(best, threshold, supports) or best, offsets=offsets)
