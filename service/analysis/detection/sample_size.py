"""Finds how many processes a night would make a small change visible. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from service.analysis.detection.change import Noise, largest_scale_that_shows
from service.analysis.statement import Statement
from service.analysis.variance import Spread

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
class Need:
    """The number of processes that it takes to see ``target``."""

    target: float
    replicates: int | None
    """Processes for each point; None if no number of them would do, or if nobody can say."""
    reason: Statement
    """One sentence for a person."""


def needed(
    noise: Noise | None, spread: Spread | None, replicates: int, target: float = TARGET
) -> Need:
    """Find how many replicates make ``target`` visible within `POINTS` on a level known long.

    More processes average away what differs between them; what a night shares stays.

    Args:
        noise: of the newest level.
        spread: of the same history.
        replicates: of its newest point.
        target: the change that is to be seen.
    """
    if noise is None or math.isinf(noise.minimum_detectable_effect):
        return Need(target, None, Statement.of("need_unknown"))
    seen = {"target": target, "points": POINTS}
    enough = Need(target, replicates, Statement.of("need_met", **seen))
    if noise.typical_size is not None:  # spreads are shares of each value, and say nothing of zero
        blind = Need(target, None, Statement.of("need_beside_zeros", **seen))
        return enough if noise.minimum_detectable_effect <= target else blind
    largest = largest_scale_that_shows(target, noise, POINTS)
    if largest >= SURELY * noise.scale:
        return enough
    if spread is None or spread.process is None:
        return Need(target, None, Statement.of("need_processes"))
    # The night's part as small as it may be: what nobody is sure of is tried before it is refused.
    night = spread.parts.get("night")
    allowed = largest**2 - (night.low**2 if night else 0.0)
    return _more(spread.process.value * spread.processes, replicates, allowed, target)


def _more(process: float, replicates: int, allowed: float, target: float) -> Need:
    """Find how many processes bring the variance of their mean down to ``allowed``."""
    if allowed <= 0:
        return Need(target, None, Statement.of("need_impossible"))
    count = max(replicates + 1, math.ceil(process / allowed))
    if count > MOST:
        return Need(target, None, Statement.of("need_many", count=count))
    says = Statement.of("need_count", count=count, target=target, points=POINTS)
    return Need(target, count, says)
