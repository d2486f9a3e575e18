"""Describes a change that stands, the noise that is left, and the least effect that shows in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.contracts import Direction
from service.analysis.detection import evidence, robust, support
from service.analysis.detection.history import Scale
from service.analysis.detection.segment_model import SHORTEST, THRESHOLD, Explanation

POINTS_AFTER = 10
"""Nights that people are ready to wait for a small change."""
HALVINGS = 25
"""Bisections: of all steps that there may be, to less than a millionth of the value."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a history's newest stretch; shares of the value, or of its typical size."""

    scale: float
    """Standard deviation of one point around its level, outliers aside."""
    autocorrelation: float
    """Correlation of neighbouring points, 0 to 0.9; 0 where it is unknown, as most are equal."""
    minimum_detectable_effect: float
    """Found four times of five once ``POINTS_AFTER`` points have been seen."""
    mode_distance: float = 0.0
    """Distance of the second mode from the first; zero without a second one."""
    drift_per_point: float = 0.0
    machine_offsets: dict[str, float] = field(default_factory=dict)
    wander: float = 1.0
    """Variation of means of neighbouring points, as a multiple of that of independent noise."""
    typical_size: float | None = None
    """The size that these shares refer to, in a history with zeros or both signs. Else None."""


def noise_in(
    explained: Explanation, scale: Scale, names: tuple[str, ...], threshold: float
) -> Noise:
    """Describe the noise of a stretch whose machines have these names."""
    of: evidence.NoiseOf = explained.noise
    earlier = explained.places[-1] if explained.places else 0
    since = len(explained.y) - earlier
    repeats = robust.repeats(explained.y)
    noise = _after_a_step(explained) if repeats else of
    step = smallest_step(noise, since, threshold=threshold, points_earlier=earlier)
    return Noise(
        scale=scale.deviation(of.scale),
        autocorrelation=0.0 if repeats else of.autocorrelation,
        minimum_detectable_effect=step if math.isinf(step) else scale.effect(step),
        mode_distance=scale.effect(abs(explained.mode_distance)),
        drift_per_point=scale.effect(explained.drift),
        wander=of.wander,
        typical_size=scale.typical_size,
        machine_offsets={
            names[number]: scale.effect(offset) for number, offset in explained.offsets.items()
        },
    )


def _after_a_step(explained: Explanation) -> evidence.NoiseOf:
    stepped = np.append(explained.y, explained.y[-1] + evidence.REFERENCE_EFFECT)
    return replace(explained.noise, autocorrelation=robust.autocorrelation(stepped))


def smallest_step(
    noise: evidence.NoiseOf,
    points_before: int = evidence.REACH,
    points_after: int = POINTS_AFTER,
    threshold: float = THRESHOLD,
    points_earlier: int = 0,
) -> float:
    """The smallest step, on the scale of analysis, that stands four times of five; by bisection.

    Infinite where no step would, because too little was seen.

    Args:
        noise: of the stretch.
        points_before: of the newest level.
        points_after: that have been seen since the step.
        threshold: evidence from which a change stands.
        points_earlier: of earlier levels, from which the noise is known as well.
    """

    def hidden(step: float) -> bool:
        points = points_before, points_after
        return not evidence.shows(step, noise, points, threshold, points_earlier)

    largest = math.log(1e6)
    return math.inf if hidden(largest) else _border(largest, hidden)[1]


def largest_scale_that_shows(effect: float, noise: Noise, points_after: int) -> float:
    """The largest noise of a point at which a step of ``effect`` stands after so many points.

    On a level that is long known, all else alike; near zero if no noise is small enough, and
    ``noise.scale`` if what there is will do. For histories that have ratios.
    """

    def seen(scale: float) -> bool:
        of = evidence.NoiseOf(scale, noise.autocorrelation, noise.wander)
        return evidence.shows(math.log1p(effect), of, (evidence.REACH, points_after), THRESHOLD)

    return _border(noise.scale, seen)[0]


def _border(high: float, holds: Callable[[float], bool]) -> tuple[float, float]:
    """Bisect from zero to ``high`` for where ``holds`` ends: a value on either side of it."""
    low = 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


TWO_SIDED_95 = 1.96
CONFIDENCE_AT_THRESHOLD, CONFIDENCE_PER_SIGMA = 0.67, 0.64
"""Log odds that a change is where it is said to be, fitted on the synthetic suite's tuning half by
``python -m trials.detection.calibration``."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level."""

    index: int
    """First point of the new level."""
    effect: float
    """How much more the new level is, as a share of the old one: -0.02 is two percent less."""
    effect_low: float
    effect_high: float
    """95 % interval of the effect."""
    before: float
    after: float
    """Both levels in the unit measured, alike in machine and mode, where the change is: what drifts
    lies elsewhere by now."""
    improvement: bool
    confidence: float
    """Probability that there is a change within five points, 0 to 1."""
    evidence: float
    """What ``confidence`` rests on, in standard deviations."""


def described(
    explained: Explanation,
    scale: Scale,
    direction: Direction,
    threshold: float,
    supports: support.Supports = support.NONE,
) -> list[ChangePoint]:
    """The changes of a stretch, in the units that people think in."""
    sums, known = evidence.Sums(explained.y), support.facts(supports)
    borders = [0, *explained.places, len(explained.y)]
    changes = []
    for at, (first, weight) in enumerate(explained.changes):
        early = _seen_early(sums, borders[at], first, borders[at + 2])
        place = first if first in known else early
        around = borders[at], place, borders[at + 2]
        seen = evidence.telling_sides(sums, around, explained.noise, threshold)
        drifted = explained.drifted(place - 0.5)
        step = place, weight
        changes.append(_change(step, sums, seen, explained.noise, scale, direction, drifted))
    return changes


def _seen_early(sums: evidence.Sums, start: int, place: int, end: int) -> int:
    """Find the first point of a level: ``place``, or one later if the newest level is the shortest.

    Such a level may hold the last point of the old one to reach the fewest points allowed.
    Left in, that point would make the effect a fifth too small.
    """
    newest = end == len(sums.sums) - 1
    if not newest or end - place != SHORTEST:
        return place
    old, new = sums.mean(max(start, place - evidence.NEAR), place), sums.mean(place + 1, end)
    first = sums.mean(place, place + 1)
    return place + (abs(first - old) < abs(first - new))


def _change(
    step: tuple[int, float],
    sums: evidence.Sums,
    seen: evidence.StepSides,
    noise: evidence.NoiseOf,
    scale: Scale,
    direction: Direction,
    drifted: float,
) -> ChangePoint:
    place, weight = step
    variance = evidence.variance_of(seen.rest, seen.points - 2, noise)
    of_means = variance * (1 / seen.left + 1 / seen.right) * noise.dependence
    error = TWO_SIDED_95 * math.sqrt(of_means)
    level = sums.first + sums.part(place - seen.left, place)[0] + drifted
    higher = (seen.difference > 0) == (scale.sign > 0)
    return ChangePoint(
        index=place,
        effect=scale.effect(seen.difference),
        effect_low=scale.effect(seen.difference - error),
        effect_high=scale.effect(seen.difference + error),
        before=scale.value(level),
        after=scale.value(level + seen.difference),
        improvement=higher == (direction is Direction.HIGHER),
        confidence=confidence(weight),
        evidence=weight,
    )


def confidence(weight: float) -> float:
    """Probability that a change with this evidence is one."""
    odds = CONFIDENCE_AT_THRESHOLD + CONFIDENCE_PER_SIGMA * (weight - THRESHOLD)
    return 1.0 / (1.0 + math.exp(-odds))
