"""What is left when changes are taken out, and the smallest effect that would be seen in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from service.detection.evidence import REACH, NoiseOf, Sides, evidence
from service.detection.merging import THRESHOLD

POINTS_AFTER = 10
"""Nights that people are ready to wait for a small change."""
POWER = 1.0
"""Standard deviations above the threshold at which four of five changes are found, in simulation
(0.84 if all noise were normal and known)."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a history's newest stretch; shares of the value unless the scale is linear."""

    scale: float
    """Standard deviation of one point around its level, outliers aside."""
    autocorrelation: float
    """Of neighbouring points, 0 to 0.9."""
    minimum_detectable_effect: float
    """Found four times of five once ``POINTS_AFTER`` points have been seen."""
    mode_distance: float = 0.0
    """How far the second mode lies from the first; zero without one."""
    drift_per_point: float = 0.0
    machine_offsets: dict[str, float] = field(default_factory=dict)
    """As effects are: shares of the value, or of its typical size if the scale is linear."""
    wander: float = 1.0
    """How much more means of neighbouring points vary than independent noise would let them."""


def minimum_detectable_effect(
    noise: NoiseOf,
    points_before: int = REACH,
    points_after: int = POINTS_AFTER,
    threshold: float = THRESHOLD,
) -> float:
    """The smallest step, as a share, that stands four times of five; by bisection.

    Infinite where no step would, because too little was seen.
    """
    low, high = 0.0, math.log(1e6)
    if not _found(high, noise, points_before, points_after, threshold):
        return math.inf
    for _ in range(40):
        middle = (low + high) / 2
        if _found(middle, noise, points_before, points_after, threshold):
            high = middle
        else:
            low = middle
    return math.expm1(high)


def largest_scale_that_shows(effect: float, noise: Noise, points_after: int) -> float:
    """The largest noise of a point at which a step of ``effect`` stands after so many points.

    On a level that is long known, all else alike; near zero if no noise is small enough, and
    ``noise.scale`` if what there is will do.
    """
    step, low, high = math.log1p(effect), 0.0, noise.scale
    for _ in range(40):
        middle = (low + high) / 2
        of = NoiseOf(middle, noise.autocorrelation, noise.wander)
        if _found(step, of, REACH, points_after, THRESHOLD):
            low = middle
        else:
            high = middle
    return low


def _found(step: float, noise: NoiseOf, before: int, after: int, threshold: float) -> bool:
    before, after = min(before, REACH), min(after, REACH)
    if min(before, after) < 1:
        return False
    rest = max(before + after - 2, 0) * noise.scale**2
    seen = Sides(left=before, right=after, difference=step, rest=rest, tilt=0.0)
    return evidence(seen, noise) >= threshold + POWER
