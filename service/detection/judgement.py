"""A whole history, window by window, so that new points cost what they are.

Windows overlap: each judges ``STRIDE`` points of its own with ``CONTEXT`` on both sides. A window
whose context is complete is never judged again by an appended point, so the distant past stands,
the work per point is bounded, and the outcome is that of a full judgement by construction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.contracts import Direction
from service import formats
from service.detection import robust
from service.detection.evidence import (
    NEAR,
    REFERENCE_EFFECT,
    NoiseOf,
    Sides,
    Sums,
    telling_sides,
    variance_of,
)
from service.detection.explanation import Explanation
from service.detection.history import History
from service.detection.merging import THRESHOLD
from service.detection.noise import Noise, smallest_step
from service.detection.partition import SHORTEST
from service.detection.scale import Scale, transform
from service.detection.window import Window, judge

STRIDE, CONTEXT = 192, 96
"""Half a year of nights, and more context than evidence reaches (60 points)."""
SEAM = 10
"""Two windows may place one change on either side of their border; within this it is one."""
LEAST_POINTS = 10
"""Two levels of five points; fewer hold no change that could be told."""
TWO_SIDED_95 = 1.96
CONFIDENCE_AT_THRESHOLD, CONFIDENCE_PER_SIGMA = 0.67, 0.64
"""Log odds that a change is where it is said to be, fitted on the synthetic suite's tuning half by
``python -m detection_bench.calibration``."""


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


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of a history."""

    change_points: tuple[ChangePoint, ...]
    noise: Noise | None
    """None if there are too few points to tell."""
    warnings: tuple[str, ...] = ()
    settled: tuple[tuple[ChangePoint, ...], ...] = ()
    """Change points of the windows that no appended point touches; pass them on to ``extend``."""
    newest: tuple[ChangePoint, ...] = ()
    """Those of the newest window, which more points may move."""
    points: int = 0


def detect(history: History, threshold: float = THRESHOLD) -> Judgement:
    """Judge a whole history."""
    return extend(Judgement((), None), history, threshold)


def extend(before: Judgement, history: History, threshold: float = THRESHOLD) -> Judgement:
    """Judge a history that ``before`` judged up to some point, after points were appended.

    Equals ``detect`` of the whole; one more point costs one window however long the past is. What
    changes the past (a late point, a new unit, zeros in a history that had none) needs ``detect``.
    """
    return resume(before.settled, history, 0, threshold, complete(before))


def complete(before: Judgement) -> Changes | None:
    """The newest window's changes, if it had all the points that it will ever rest on."""
    return before.newest if before.points == end_needed(len(before.settled)) else None


def resume(
    settled: Sequence[Changes],
    tail: History,
    first: int,
    threshold: float = THRESHOLD,
    known: Changes | None = None,
) -> Judgement:
    """Judge a history of whose beginning only the settled windows' changes are at hand.

    ``tail`` begins with point ``first`` of the history, which is at most
    ``first_needed(len(settled))``. ``known`` are the changes of the next window to settle, if it
    was the newest one when it was `complete`.
    """
    count = first + len(tail.values)
    if count < LEAST_POINTS:
        told = f"{formats.counted(count, 'point')}: changes are told from {LEAST_POINTS} on."
        return Judgement((), None, (told,))
    windows = list(settled)
    while end_needed(len(windows)) < count:
        number = len(windows)
        found = _window_changes(tail, first, number, threshold)[0] if known is None else known
        windows.append(tuple(each for each in found if each.index < (number + 1) * STRIDE + SEAM))
        known = None
    newest, noise, warnings = _window_changes(tail, first, len(windows), threshold)
    return Judgement(joined([*windows, newest]), noise, warnings, tuple(windows), newest, count)


def first_needed(window: int) -> int:
    """The first point that a window rests on."""
    return max(0, window * STRIDE - CONTEXT)


def end_needed(window: int) -> int:
    """The point after the last one that a settled window rests on."""
    return (window + 1) * STRIDE + CONTEXT


Changes = tuple[ChangePoint, ...]
Found = tuple[Changes, Noise, tuple[str, ...]]


def _window_changes(history: History, first: int, number: int, threshold: float) -> Found:
    """The changes that one window knows of, from a seam's width before its own points on."""
    own = number * STRIDE
    start = first_needed(number)
    end = min(first + len(history.values), end_needed(number))
    y, scale = transform(history.values[start - first : end - first])
    groups = None if history.groups is None else history.groups[start - first : end - first]
    window = judge(y, groups, threshold)
    found = _described(window, scale, history.direction, threshold)
    mine = tuple(
        replace(each, index=each.index + start)
        for each in found
        if each.index + start >= own - SEAM
    )
    noise = _noise(window, scale, history.group_names, threshold)
    return mine, noise, _warnings(scale)


def joined(windows: list[tuple[ChangePoint, ...]]) -> tuple[ChangePoint, ...]:
    """All windows' changes in order, each once: of two beside a border the stronger one."""
    kept: list[ChangePoint] = []
    for number, found in enumerate(windows):
        border = number * STRIDE
        for each in found:
            rival = kept[-1] if kept else None
            beside = rival is not None and abs(rival.index - border) <= SEAM
            if rival and beside and each.index - rival.index <= SEAM:
                if each.evidence > rival.evidence:
                    kept[-1] = each
            else:
                kept.append(each)
    return tuple(kept)


def _described(
    window: Window, scale: Scale, direction: Direction, threshold: float
) -> list[ChangePoint]:
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
    """Where a level begins whose points are too few to be one: the last old one makes them enough.

    Left in, it would make the effect a fifth too small.
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
    seen: Sides,
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


def _noise(window: Window, scale: Scale, names: tuple[str, ...], threshold: float) -> Noise:
    explained = window.explained
    of: NoiseOf = explained.noise
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


def _after_a_step(explained: Explanation) -> NoiseOf:
    """The noise that a step will be held against where points repeat: it alone correlates then."""
    stepped = np.append(explained.y, explained.y[-1] + REFERENCE_EFFECT)
    return replace(explained.noise, autocorrelation=robust.autocorrelation(stepped))


def _warnings(scale: Scale) -> tuple[str, ...]:
    if scale.logarithmic:
        return ()
    return (f"Zeros or both signs: no ratios, effects are shares of {scale.size:.6g}.",)
