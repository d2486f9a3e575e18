"""Tells a drift from steps: a level that moves a little with each of several revisions. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

LEAST_ODDS = math.log(20)
"""ln of how much likelier a drift is than steps, from which it is believed."""
SHORTEST = 3
"""Revisions over which a level moves that drifts; with fewer it is two steps."""

Shape = NDArray[np.float64]


def is_gradual(levels: Sequence[float], errors: Sequence[float], reach: int) -> bool:
    """Return True if levels move along a ramp, and not in up to three steps.

    Two steps have as many free values as a ramp: two places, and the levels between and beside
    them. A third step pays for the two values that it adds.

    Args:
        levels: logarithm of the level at each revision, in their order.
        errors: standard deviation of each of them, above zero.
        reach: revisions at the end among which the level may have begun to move.
    """
    if reach < SHORTEST:
        return False
    values, weights = np.array(levels), 1.0 / np.array(errors)
    count = len(values)
    places = range(max(1, count - reach), count)

    def misfit(shapes: Iterator[Sequence[Shape]]) -> float:
        fits = (_misfit(values, weights, shape) for shape in shapes)
        return min(fits, default=math.inf)

    two = misfit([_step(count, at) for at in chosen] for chosen in combinations(places, 2))
    three = misfit([_step(count, at) for at in chosen] for chosen in combinations(places, 3))
    steps = min(two, three + 2.0 * math.log(count))
    ends = [
        (a, b) for a, b in combinations(range(count - reach, count), 2) if b - a >= SHORTEST - 1
    ]
    ramps = misfit([_ramp(count, a - 1, b)] for a, b in ends)
    return steps - ramps > 2.0 * LEAST_ODDS


def _misfit(values: Shape, weights: Shape, shapes: Sequence[Shape]) -> float:
    """Sum of the squared distances, in standard deviations, from the best sum of shapes."""
    design = np.stack([np.ones_like(values), *shapes], axis=1) * weights[:, None]
    found = np.linalg.lstsq(design, values * weights, rcond=None)[0]
    return float(np.sum((values * weights - design @ found) ** 2))


def _step(count: int, at: int) -> Shape:
    return (np.arange(count) >= at).astype(float)


def _ramp(count: int, begin: int, end: int) -> Shape:
    """Zero up to ``begin``, one from ``end`` on."""
    return np.clip((np.arange(count) - begin) / (end - begin), 0.0, 1.0)
