"""Measures how strongly the points on both sides speak for a change at one place.

The heart is a t statistic: the difference of two means over the noise that they carry, with the
noise of the whole stretch as prior knowledge, widened by autocorrelation and by the wander of
weeks. It saturates: where nobody doubts that the numbers differ, being surer still of that says
nothing about whether it is a change. What it does not know is added in its own unit, standard
deviations:

* *size*: changes that people confirm are larger than the wander of machines, clocks and drivers,
  which no sample from one stretch contains. Each doubling of the effect counts as ``PER_DOUBLING``.
* *length*: a level that has stood for long is a level; five points may be a bad day. Each doubling
  of the shorter side counts as ``PER_LENGTH``.
* *slope*: where both sides slope alike, the step is what is left at the border between them; and
  what a straight line explains better than a step is no step.

The constants were chosen by a coarse grid over five suites at once
(benchmarks/results/detection/README.md); neighbours on the grid differ by less than the labels can
tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.detection.robust import BLOCK, CLIP, FLOOR, STRONGEST, Floats

REACH = 60
"""Points of each side that are looked at: enough for a mean to a tenth of the noise, and few
enough that a level's far past does not speak for its present."""
NEAR = 15
"""Points of each side that are looked at a second time by themselves: a fortnight. Where a level
itself moves within two months, its far points only add noise to a step that the near ones show.
Of 12 to 30 all gain a little, 15 most."""
PRIOR_POINTS = 10.0
"""The stretch's noise weighs as much as this many points: five quiet points prove little."""
REFERENCE_EFFECT, PER_DOUBLING = math.log1p(0.02), 0.8
"""At 2 % size counts nothing; half of that asks for 0.8 standard deviations more."""
EFFECT_DOUBLINGS = 3.0
"""From 0.25 % to 16 %: beyond, size says nothing more."""
REFERENCE_LENGTH, PER_LENGTH = 20, 1.2
"""At 20 points on the shorter side length counts nothing."""
LENGTH_HALVINGS, LENGTH_DOUBLINGS = 2.0, 1.0
"""From 5 to 40 points."""
DEPENDENCE = 0.5
"""The variance of a mean of AR(1) noise grows by (1+a)/(1-a). Part of that estimate is itself the
changes that are looked for, so its square root is taken."""
WANDERING = 0.1
"""Share of a level's wander that more points do not average out. All of it hides real changes of
restless series, none of it alarms on weeks that come and go; 0.06 to 0.25 serve alike."""
CERTAIN, BEYOND = 6.0, 0.3
"""Beyond six standard deviations each more counts a third: a step of 0.5 % for a week in a series
that repeats to 0.03 % is a fact, and not yet a change that anyone would confirm."""
SLOPED = 4.0
"""Standard errors from which a slope within the sides is taken for one."""
POWER = 0.84
"""Standard errors by which one step of five looks smaller than it is, errors being normal. Asked of
the step and not of its evidence, where what lies beyond certainty counts a third."""
LINE_HANDICAP = 1.0
"""What a step must explain beyond a line, in squared noise."""


@dataclass(frozen=True, slots=True)
class NoiseOf:
    """The noise of a stretch, as evidence needs it."""

    scale: float
    autocorrelation: float
    wander: float = 1.0
    """Variation of means of neighbouring points, as a multiple of that of independent noise."""

    @property
    def dependence(self) -> float:
        """By how much the variance of a mean grows because neighbours are alike."""
        a = self.autocorrelation
        return max((1.0 + a) / (1.0 - a), self.wander)

    @property
    def widening(self) -> float:
        """By how much evidence widens the variance of a mean."""
        a = self.autocorrelation
        return float(((1.0 + a) / (1.0 - a)) ** DEPENDENCE)

    @property
    def restless(self) -> float:
        """Variance of the difference of two levels that no number of points averages out."""
        return 2.0 * WANDERING * self.scale**2 * (self.wander - 1.0) / BLOCK


class Sums:
    """Running sums, so that any part's mean, spread and slope cost the same."""

    __slots__ = ("first", "sloped", "squares", "sums")

    def __init__(self, y: Floats) -> None:
        self.first = float(np.median(y)) if len(y) else 0.0
        centred = y - self.first
        self.sums: list[float] = [0.0, *np.cumsum(centred).tolist()]
        self.squares: list[float] = [0.0, *np.cumsum(centred * centred).tolist()]
        self.sloped: list[float] = [0.0, *np.cumsum(centred * np.arange(len(y))).tolist()]

    def mean(self, start: int, end: int) -> float:
        """Mean of one part, less ``first``."""
        return (self.sums[end] - self.sums[start]) / (end - start)

    def part(self, start: int, end: int) -> tuple[float, float, float]:
        """Mean, sum of squared residuals, and sum of residual times position of one part."""
        length = end - start
        total = self.sums[end] - self.sums[start]
        rest = max(self.squares[end] - self.squares[start] - total * total / length, 0.0)
        middle = start + (length - 1) / 2
        return total / length, rest, self.sloped[end] - self.sloped[start] - middle * total


@dataclass(frozen=True, slots=True)
class StepSides:
    """Statistics of the points on both sides of a place."""

    left: int
    right: int
    difference: float
    rest: float
    """Squared residuals around both means."""
    tilt: float
    """Sum of residual times position within both sides."""

    @property
    def points(self) -> int:
        """Points on both sides together."""
        return self.left + self.right

    @property
    def confirmable(self) -> bool:
        """Return True if people would confirm the difference at sight."""
        return abs(self.difference) >= REFERENCE_EFFECT


def sides(sums: Sums, start: int, place: int, end: int, reach: int = REACH) -> StepSides:
    """Both sides of ``place`` between its neighbours ``start`` and ``end``, within reach."""
    start, end = max(start, place - reach), min(end, place + reach)
    before, rest_before, tilt_before = sums.part(start, place)
    after, rest_after, tilt_after = sums.part(place, end)
    return StepSides(
        left=place - start,
        right=end - place,
        difference=after - before,
        rest=rest_before + rest_after,
        tilt=tilt_before + tilt_after,
    )


def evidence_at(sums: Sums, start: int, place: int, end: int, noise: NoiseOf) -> float:
    """Evidence for a change at ``place``, from far or from near, whichever shows more.

    A second look finds more by chance as well, so it must show a change that people confirm at
    sight: one of ``REFERENCE_EFFECT`` or more.
    """
    far = sides(sums, start, place, end)
    from_far = evidence(far, noise)
    if max(far.left, far.right) <= NEAR:
        return from_far
    near = sides(sums, start, place, end, NEAR)
    return max(from_far, evidence(near, noise)) if near.confirmable else from_far


def telling_sides(
    sums: Sums, borders: tuple[int, int, int], noise: NoiseOf, threshold: float
) -> StepSides:
    """The sides of a standing change that show it: the far ones if they suffice, being the surer.

    Args:
        sums: of the history.
        borders: where the level before begins, the place, and where the level after ends.
        noise: of the history.
        threshold: evidence from which a change stands.
    """
    far, near = sides(sums, *borders), sides(sums, *borders, NEAR)
    from_far = evidence(far, noise)
    from_near = from_far < threshold and near.confirmable and evidence(near, noise) > from_far
    return near if from_near else far


def evidence(seen: StepSides, noise: NoiseOf) -> float:
    """Standard deviations in favour of a change; zero if a line explains it better."""
    variance = variance_of(seen.rest, seen.points - 2, noise)
    if _line_explains(seen, variance):
        return 0.0
    squared = _squared_t(seen, variance, noise)
    freedom = max((seen.points - 2) / noise.widening, 2.0) + PRIOR_POINTS
    normal = math.sqrt(freedom * math.log1p(squared / freedom))  # Student's tail as a normal's
    normal -= (1.0 - BEYOND) * max(normal - CERTAIN, 0.0)
    return normal + size_bonus(seen.difference) + length_bonus(min(seen.left, seen.right))


def size_bonus(difference: float) -> float:
    """Return what the size of the effect adds to the evidence, in standard deviations."""
    doublings = math.log2(max(abs(difference), 1e-12) / REFERENCE_EFFECT)
    return PER_DOUBLING * min(max(doublings, -EFFECT_DOUBLINGS), EFFECT_DOUBLINGS)


def length_bonus(shorter: int) -> float:
    """Return what the length of the shorter side adds, in standard deviations."""
    doublings = math.log2(shorter / REFERENCE_LENGTH)
    return PER_LENGTH * min(max(doublings, -LENGTH_HALVINGS), LENGTH_DOUBLINGS)


def variance_of(rest: float, freedom: int, noise: NoiseOf) -> float:
    """Variance of a point, from both sides and the stretch around them.

    What is known beforehand may add noise to quiet points, never hide that points are restless.
    """
    alone = rest / freedom if freedom > 0 else 0.0
    prior = PRIOR_POINTS * noise.scale * noise.scale
    return max((rest + prior) / (max(freedom, 0) + PRIOR_POINTS), alone, FLOOR * FLOOR)


def _squared_t(seen: StepSides, variance: float, noise: NoiseOf) -> float:
    harmonic = 1.0 / seen.left + 1.0 / seen.right
    power = _power(seen.left) + _power(seen.right)
    slope = seen.tilt / power if power else 0.0
    level = variance_of(seen.rest - slope * slope * power, seen.points - 3, noise)
    if power and abs(slope) > SLOPED * math.sqrt(level / power * noise.widening):
        half = seen.points / 2  # between the two sides' middles
        at_border = seen.difference - slope * half
        of_border = level * (harmonic + half * half / power) * noise.widening
        return at_border**2 / (of_border + noise.restless)
    return seen.difference**2 / (variance * harmonic * noise.widening + noise.restless)


def _line_explains(seen: StepSides, variance: float) -> bool:
    points, product = seen.points, seen.left * seen.right
    by_step = seen.difference**2 * product / points
    tilt = seen.tilt + seen.difference * product / 2  # both sides' middles are half of all apart
    return by_step < tilt * tilt / _power(points) + LINE_HANDICAP * variance


def _power(points: int) -> float:
    return points * (points * points - 1) / 12


def shows(
    step: float, noise: NoiseOf, points: tuple[int, int], threshold: float, points_earlier: int = 0
) -> bool:
    """Return True if a step stands four times of five.

    It has the size that it seems to have in the one case of five that is weakest.
    """
    before, after = (min(count, REACH) for count in points)
    if min(before, after) < 1:
        return False
    with_step = _with_step(step, noise, sum(points) + points_earlier)
    rest = max(before + after - 2, 0) * with_step.scale**2
    seen = StepSides(left=before, right=after, difference=step, rest=rest, tilt=0.0)
    least = step - POWER * _error(seen, with_step)
    return least > 0 and evidence(replace(seen, difference=least), with_step) >= threshold


def _with_step(step: float, noise: NoiseOf, points: int) -> NoiseOf:
    alone = 1.0 - noise.autocorrelation
    usual = 2.0 * alone * noise.scale**2
    excess = min(step**2, CLIP**2 * usual) / usual if usual else CLIP**2
    with_step = 1.0 - alone * points / (points + excess)
    return replace(noise, autocorrelation=min(with_step, STRONGEST))


def _error(seen: StepSides, noise: NoiseOf) -> float:
    variance = variance_of(seen.rest, seen.points - 2, noise) * noise.widening
    of_means = variance * (1.0 / seen.left + 1.0 / seen.right) + noise.restless
    of_noise = seen.difference**2 / (2.0 * seen.points)
    return math.sqrt(of_means + of_noise)
