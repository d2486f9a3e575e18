"""Finds how many processes a night would make a small change visible. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from service.analysis.detection.change import Noise, largest_scale_that_shows
from service.analysis.statement import Statement, state

TARGET = 0.01
"""One per cent: what people ask for first."""
POINTS = 20
"""A month of working nights: how long one may have to look for it in the history alone. Measuring
again, which the first surprise leads to, is much faster."""
SURELY = 0.999
"""Of the noise there is: what the bisection leaves."""
MOST = 50
"""Processes that a job may have (`benchmarks.contracts.Protocol`)."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The relative standard deviation between the processes of one point, and their number."""

    deviation: float
    replicates: int


@dataclass(frozen=True, slots=True)
class Need:
    """The number of processes that it takes to see ``target``."""

    target: float
    replicates: int | None
    """Processes for each point; None if no number of them would do, or if nobody can say."""
    reason: Statement
    """One sentence for a person."""


def needed(noise: Noise | None, spreads: Sequence[Spread], target: float = TARGET) -> Need:
    """Find how many replicates make ``target`` visible within `POINTS` on a level known long.

    The noise of a point has a part that more processes average away and a part that they share
    (the night, the node). The first is known from the spread between the processes of a point; the
    rest stays.
    """
    if noise is None or math.isinf(noise.minimum_detectable_effect):
        return Need(target, None, state("need_unknown"))
    now = _usual(spreads)
    seen = {"target": target, "points": POINTS}
    enough = Need(target, now.replicates if now else 1, state("need_met", **seen))
    if noise.typical_size is not None:  # spreads are shares of each value, and say nothing of zero
        blind = Need(target, None, state("need_beside_zeros", **seen))
        return enough if noise.minimum_detectable_effect <= target else blind
    largest = largest_scale_that_shows(target, noise, POINTS)
    if largest >= SURELY * noise.scale:
        return enough
    if now is None:
        return Need(target, None, state("need_processes"))
    allowed = largest**2 - _shared(noise, now, len(spreads))
    return _more(now, allowed, target)


def _more(now: Spread, allowed: float, target: float) -> Need:
    """Find how many processes bring the variance of their mean down to ``allowed``."""
    if allowed <= 0:
        return Need(target, None, state("need_impossible"))
    count = max(now.replicates + 1, math.ceil(now.deviation**2 / allowed))
    if count > MOST:
        return Need(target, None, state("need_many", count=count))
    return Need(target, count, state("need_count", count=count, target=target, points=POINTS))


def _shared(noise: Noise, now: Spread, points: int) -> float:
    between_processes = now.deviation**2 / now.replicates
    error = math.sqrt(2.0 / points + 2.0 / (points * (now.replicates - 1)))
    return max(0.0, noise.scale**2 - between_processes * (1.0 + 2.0 * error))


def _usual(spreads: Sequence[Spread]) -> Spread | None:
    """The usual spread of the points that have several processes; they are of one protocol.

    The median, so that one wild night says nothing; of few processes it lies below the mean, by
    what the median of chi-square says.
    """
    several = [spread for spread in spreads if spread.replicates >= 2]
    if not several:
        return None
    count = several[-1].replicates
    below = float(chdtri(count - 1, 0.5)) / (count - 1)
    middle = float(np.median([spread.deviation**2 for spread in several]))
    return Spread(math.sqrt(middle / below), count)
