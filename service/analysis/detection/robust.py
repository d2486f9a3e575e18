"""Statistics that outliers cannot move: running medians, spreads, clipping, autocorrelation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NORMAL = 1.4826
"""Median absolute deviation to standard deviation, for normal noise."""
HALF_WIDTH = 6
"""A running median of 13 points ignores a bad stretch of up to 6 and keeps the edge of a step."""
FOLLOWS = 1.15
"""That median follows its own points, so that residuals from it are this much too small."""
CLIP = 3.0
"""Noise goes beyond three standard deviations once in 370 points; what does is pulled back."""
OUTLIER = 8.0
"""Beyond eight it says nothing about the level, and counts as if it were the median itself."""
FLOOR = 0.0003
"""No benchmark repeats better than 0.03 %: less is a timer's grid, not a measure of noise."""
STRONGEST = 0.9
"""Autocorrelation above this cannot be told from a level that moves."""
BLOCK = 8
"""Points in the means whose wander is measured: a week of nights and a day."""
HALF_NORMAL_MEDIAN = 0.6745
MOST_WANDER = 10.0
"""What wanders more is a history of many levels, whose steps are not its noise."""


def running_median(y: Floats) -> Floats:
    """Median of `2 * HALF_WIDTH + 1` points around each, mirrored at the ends."""
    half = min(HALF_WIDTH, (len(y) - 1) // 2)
    if half < 1:
        return y.copy()
    filtered: Floats = median_filter(y, size=2 * half + 1, mode="mirror")
    return filtered


def spread(residuals: Floats) -> float:
    """Standard deviation of the bulk."""
    return NORMAL * float(np.median(np.abs(residuals))) if len(residuals) else 0.0


def clipped(y: Floats) -> tuple[Floats, float]:
    """``y`` with outliers pulled back or taken for the median, and the standard deviation."""
    middle = running_median(y)
    residuals = y - middle
    steps = np.diff(y)
    from_steps = spread(steps - np.median(steps)) / math.sqrt(2) if len(steps) else 0.0
    # Half of the neighbours' spread: autocorrelation and modes make it miss in both directions.
    scale = max(FOLLOWS * spread(residuals), 0.7 * from_steps, FLOOR)
    pulled = np.clip(residuals, -CLIP * scale, CLIP * scale)
    return middle + np.where(np.abs(residuals) > OUTLIER * scale, 0.0, pulled), scale


def autocorrelation(y: Floats) -> float:
    """Correlation of neighbours, from differences: a step touches one difference, not many.

    For noise with autocorrelation ``a`` neighbouring differences correlate by ``(a - 1) / 2``.
    """
    steps = np.diff(y)
    if len(steps) < 3:
        return 0.0
    limit = CLIP * spread(steps) + 1e-12
    steps = np.clip(steps, -limit, limit)
    steps = steps - steps.mean()
    power = float(steps @ steps)
    if power <= 0:
        return 0.0
    return min(max(1.0 + 2.0 * float(steps[1:] @ steps[:-1]) / power, 0.0), STRONGEST)


def repeats(y: Floats) -> bool:
    """Return True if most neighbours are equal, as bytes are.

    What differs then are steps and not noise.
    """
    steps = np.diff(y)
    return len(steps) > 0 and spread(steps - np.median(steps)) < FLOOR / 1000


def wander(residuals: Floats, scale: float) -> float:
    """Variance of neighbouring blocks' means over what independent noise would give, 1 to 10.

    The median over all pairs of neighbouring blocks, so that a few changes of level weigh little.
    """
    if len(residuals) < 3 * BLOCK:
        return 1.0
    sums = np.concatenate(([0.0], np.cumsum(residuals)))
    means = (sums[BLOCK:] - sums[:-BLOCK]) / BLOCK
    apart = float(np.median(np.abs(means[BLOCK:] - means[:-BLOCK]))) / HALF_NORMAL_MEDIAN
    return min(max(apart * apart * BLOCK / 2.0 / (scale * scale), 1.0), MOST_WANDER)
