"""A new result against what the newest level leads one to expect: a low bar, on purpose.

A surprise is a reason to measure again, never an alert: one point in two hundred surprises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from scipy.special import stdtrit

from service.analysis.detection.evidence import REACH
from service.analysis.detection.history import History, transform
from service.analysis.detection.support import Supports, within
from service.analysis.detection.window import explain_window
from service.analysis.detection.windows import CONTEXT

LEAST_POINTS = 5
"""On a level before anything is expected of the next point."""
COVERAGE = 0.995
"""One re-run in two hundred quiet results is a price that a night can pay; offsets of nodes that
are not known well yet make it more."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The range in which the mean of the next values will fall with probability ``COVERAGE``."""

    low: float
    high: float
    points: int
    """On the level that this rests on."""
    of: int = 1
    """Values that the mean is of."""

    def surprised_by(self, value: float) -> bool:
        """Return True if ``value`` should be measured again."""
        return not self.low <= value <= self.high

    def after(self, points: int) -> Expectation:
        """Return what is expected on another level, known by the mean of so many points.

        The range is wider by the error of that mean; it lies where this one does.
        """
        middle, more = (self.low + self.high) / 2, math.sqrt(1 + self.of / points)
        reach = (self.high - self.low) / 2 * more
        return replace(self, low=middle - reach, high=middle + reach, points=points)


def expectation(
    history: History, known: Supports, groups: Sequence[int | None] = (None,)
) -> Expectation | None:
    """Return the range expected of the mean of the next values; None while the level is too young.

    ``known`` are the changes of the history. ``groups`` are the machines that will measure the next
    values, as numbers of ``history.groups``, None if that is not known.
    """
    start = max([len(history.values) - REACH, 0, *known])
    if len(history.values) - start < LEAST_POINTS:
        return None
    first = min(start, max(0, len(history.values) - CONTEXT))
    y, scale = transform(history.values[first:])
    machines = None if history.groups is None else history.groups[first:]
    inside = within(known, first, len(history.values))
    explained = explain_window(y, machines, supports=inside)
    level = explained.y[start - first :]
    offset = fmean(0.0 if one is None else explained.offsets.get(one, 0.0) for one in groups)
    noise = max(float(np.std(level)), explained.noise.scale)
    reaches = _reach(len(level), noise, known_from=len(y) - len(inside), of=len(groups))
    # The next point lies one place behind the last.
    place = len(y) + (len(groups) - 1) / 2
    middle = float(np.mean(level)) + offset + explained.drifted(place)
    mode = explained.mode_distance
    ends = (scale.value(middle + min(mode, 0.0) - reaches),
            scale.value(middle + max(mode, 0.0) + reaches))  # fmt: skip
    return Expectation(min(ends), max(ends), len(level), len(groups))


def _reach(points: int, noise: float, known_from: int, of: int) -> float:
    """Distance of a mean ``of`` so many from the level of some points.

    The whole stretch tells the noise around it.
    """
    quantile = float(stdtrit(max(known_from - 1, 1), (1 + COVERAGE) / 2))
    return quantile * noise * math.sqrt(1 / of + 1 / points)
