"""Measures the noise that is left without changes, and the smallest effect that shows in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from service.analysis.detection import evidence, robust
from service.analysis.detection.pruning import THRESHOLD
from service.analysis.detection.robust import CLIP, STRONGEST
from service.analysis.detection.scale import Scale
from service.analysis.detection.segment_model import Explanation
from service.analysis.detection.window import Window

POINTS_AFTER = 10
"""Nights that people are ready to wait for a small change."""
POWER = 0.84
"""Standard errors by which one step of five looks smaller than it is, errors being normal. Asked of
the step and not of its evidence, where what lies beyond certainty counts a third."""
HALVINGS = 25
"""Bisections: of all steps that there may be, to less than a millionth of the value."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a history's newest stretch; shares of the value, or of its typical size."""

    scale: float
    """Standard deviation of one point around its level, outliers aside."""
    autocorrelation: float
    """Of neighbouring points, 0 to 0.9; 0 where most are equal, which tells nothing of it."""
    minimum_detectable_effect: float
    """Found four times of five once ``POINTS_AFTER`` points have been seen."""
    mode_distance: float = 0.0
    """How far the second mode lies from the first; zero without one."""
    drift_per_point: float = 0.0
    machine_offsets: dict[str, float] = field(default_factory=dict)
    wander: float = 1.0
    """How much more means of neighbouring points vary than independent noise would let them."""
    typical_size: float | None = None
    """What all this is shares of, in a history of zeros or both signs; None if of the value."""


def noise_in(window: Window, scale: Scale, names: tuple[str, ...], threshold: float) -> Noise:
    """Describe the noise of a stretch whose machines have these names."""
    explained = window.explained
    of: evidence.NoiseOf = explained.noise
    earlier = explained.places[-1] if explained.places else 0
    since = len(explained.y) - earlier
    repeats = robust.repeats(explained.y)
    judged = _after_a_step(explained) if repeats else of
    step = smallest_step(judged, since, threshold=threshold, points_earlier=earlier)
    return Noise(
        scale=scale.deviation(of.scale),
        autocorrelation=0.0 if repeats else of.autocorrelation,
        minimum_detectable_effect=step if math.isinf(step) else scale.effect(step),
        mode_distance=scale.effect(abs(explained.mode_distance)),
        drift_per_point=scale.effect(explained.drift),
        wander=of.wander,
        typical_size=scale.typical_size,
        machine_offsets={
            names[number]: scale.effect(offset) for number, offset in window.offsets.items()
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
    """The smallest step on the scale of ``scale.py`` that stands four times of five; by bisection.

    Infinite where no step would, because too little was seen.

    Args:
        noise: of the stretch.
        points_before: of the newest level.
        points_after: that have been seen since the step.
        threshold: evidence from which a change stands.
        points_earlier: of earlier levels, from which the noise is known as well.
    """
    low, high = 0.0, math.log(1e6)
    if not _found(high, noise, (points_before, points_after), threshold, points_earlier):
        return math.inf
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _found(middle, noise, (points_before, points_after), threshold, points_earlier):
            high = middle
        else:
            low = middle
    return high


def largest_scale_that_shows(effect: float, noise: Noise, points_after: int) -> float:
    """The largest noise of a point at which a step of ``effect`` stands after so many points.

    On a level that is long known, all else alike; near zero if no noise is small enough, and
    ``noise.scale`` if what there is will do. For histories that have ratios.
    """
    step, low, high = math.log1p(effect), 0.0, noise.scale
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        of = evidence.NoiseOf(middle, noise.autocorrelation, noise.wander)
        if _found(step, of, (evidence.REACH, points_after)):
            low = middle
        else:
            high = middle
    return low


def _found(
    step: float,
    noise: evidence.NoiseOf,
    points: tuple[int, int],
    threshold: float = THRESHOLD,
    points_earlier: int = 0,
) -> bool:
    """Return True if a step stands four times of five.

    It is judged at the size that it seems to have in the one case of five that is weakest.
    """
    before, after = (min(count, evidence.REACH) for count in points)
    if min(before, after) < 1:
        return False
    judged = _with_step(step, noise, sum(points) + points_earlier)
    rest = max(before + after - 2, 0) * judged.scale**2
    seen = evidence.StepSides(left=before, right=after, difference=step, rest=rest, tilt=0.0)
    least = step - POWER * _error(seen, judged)
    return least > 0 and evidence.evidence(replace(seen, difference=least), judged) >= threshold


def _with_step(step: float, noise: evidence.NoiseOf, points: int) -> evidence.NoiseOf:
    alone = 1.0 - noise.autocorrelation
    usual = 2.0 * alone * noise.scale**2
    excess = min(step**2, CLIP**2 * usual) / usual if usual else CLIP**2
    with_step = 1.0 - alone * points / (points + excess)
    return replace(noise, autocorrelation=min(with_step, STRONGEST))


def _error(seen: evidence.StepSides, noise: evidence.NoiseOf) -> float:
    variance = evidence.variance_of(seen.rest, seen.points - 2, noise) * noise.widening
    of_means = variance * (1.0 / seen.left + 1.0 / seen.right) + noise.restless
    of_noise = seen.difference**2 / (2.0 * seen.points)
    return math.sqrt(of_means + of_noise)
