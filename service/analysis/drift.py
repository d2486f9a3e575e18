"""Tells a drift from steps: a level that moves a little with each of several revisions. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class StepBesideDrift:
    """A step of a level that drifts along before and after it."""

    step: float
    """ln(after / before)."""
    error: float
    """Standard deviation of it."""
    level: float
    """ln of the level at the first revision that shows the step, without it."""
    slope: float
    """Drift of the level with each revision."""

    def at(self, revision: float) -> float:
        """Give the level at a revision without the step; the first that shows it is 0."""
        return self.level + self.slope * revision


def step_beside_drift(
    before: Sequence[tuple[float, float]], after: Sequence[tuple[float, float]], noise: float
) -> StepBesideDrift | None:
    """Part a step from the drift beside it; None if a step alone explains the levels as well.

    Args:
        before: number of the revision, from the first that may show the step on, and ln of the
            level there; at least one.
        after: likewise, from that revision on.
        noise: standard deviation of a level, above zero.
    """
    sides = np.array(before), np.array(after)
    (x0, y0), (x1, y1) = (side.mean(axis=0) for side in sides)
    x, y = np.concatenate([side - side.mean(axis=0) for side in sides]).T
    across = float(x @ x)
    if not across:
        return None
    slope = float(x @ y) / across
    rest = float(np.sum((y - slope * x) ** 2)) / max(1, len(x) - 3)
    scale = max(noise, math.sqrt(rest))
    if slope**2 * across <= 2.0 * LEAST_ODDS * scale**2:
        return None
    error = scale * math.sqrt(1.0 / len(before) + 1.0 / len(after) + (x1 - x0) ** 2 / across)
    return StepBesideDrift(float(y1 - y0 - slope * (x1 - x0)), error, float(y0 - slope * x0), slope)
