"""Describes a change that stands: its place, its size and its confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.contracts import Direction
from service.analysis.detection.evidence import (
    NEAR,
    NoiseOf,
    StepSides,
    Sums,
    telling_sides,
    variance_of,
)
from service.analysis.detection.partition import SHORTEST
from service.analysis.detection.pruning import THRESHOLD
from service.analysis.detection.scale import Scale
from service.analysis.detection.window import Window

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
    window: Window, scale: Scale, direction: Direction, threshold: float
) -> list[ChangePoint]:
    """The changes of a stretch, in the units that people think in."""
    explained = window.explained
    sums = Sums(explained.y)
    borders = [0, *explained.places, len(explained.y)]
    changes = []
    for at, (_, weight) in enumerate(explained.changes):
        place = _seen_early(sums, borders[at], borders[at + 1], borders[at + 2])
        around = borders[at], place, borders[at + 2]
        seen = telling_sides(sums, around, explained.noise, threshold)
        drifted = explained.drifted(place - 0.5)
        found = place, weight
        changes.append(_change(found, sums, seen, explained.noise, scale, direction, drifted))
    return changes


def _seen_early(sums: Sums, start: int, place: int, end: int) -> int:
    """Find the first point of a level: ``place``, or one later if the newest level is the shortest.

    Such a level may hold the last point of the old one to reach the fewest points allowed.
    Left in, that point would make the effect a fifth too small.
    """
    newest = end == len(sums.sums) - 1
    if not newest or end - place != SHORTEST:
        return place
    old, new = sums.mean(max(start, place - NEAR), place), sums.mean(place + 1, end)
    first = sums.mean(place, place + 1)
    return place + (abs(first - old) < abs(first - new))


def _change(
    found: tuple[int, float],
    sums: Sums,
    seen: StepSides,
    noise: NoiseOf,
    scale: Scale,
    direction: Direction,
    drifted: float,
) -> ChangePoint:
    place, weight = found
    variance = variance_of(seen.rest, seen.points - 2, noise)
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
