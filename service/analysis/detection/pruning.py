"""Merges the weakest proposal away until all that remain stand.

A bad stretch that comes and goes is doubted: a node that runs hot for eight nights makes two clear
steps, and no revision made either. Real changes that are reverted within the month exist, and are
rarer. So both borders of a short level must be the surer the shorter it is and the more exactly the
history returns to where it was.

Doubt may take one step of an episode and leave the other: a drop that is over would stay, or a
recovery stand as an improvement. If we report the one we must report the other, so what is left of
an episode is completed: the other step needs no more than any other change.

Merging one change of a pair strengthens or weakens its neighbours, whose sides grow, and theirs,
for which it may have ended an episode; all four are weighed again. Deterministic; of equals the
earliest goes first.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator, Sequence

from service.analysis.detection.evidence import REACH, NoiseOf, Sums, evidence_at
from service.analysis.detection.robust import Floats

LONGEST = 32
"""Points: a month of nights. What stands for longer is a level, whatever comes after it."""
PER_HALVING = 2.0
"""Standard deviations asked for by each halving of the stretch, if it returns exactly."""
HALVINGS = 2.0
"""From 32 to 8 points; shorter ones are held back by their length already (``evidence.py``)."""


def doubt(sums: Sums, borders: Sequence[int], at: int) -> float:
    """Return the evidence that ``borders[at]`` needs beyond others, in standard deviations.

    It is more than zero where a level beside it may be an episode.
    """
    doubts = [0.0]
    # Each border asks which share of its own step is undone, so the one behind looks backwards.
    if at + 2 < len(borders):
        doubts.append(_doubt(sums, borders[at - 1 : at + 3]))
    if at >= 2:
        doubts.append(_doubt(sums, borders[at - 2 : at + 2], backwards=True))
    return max(doubts)


def _doubt(sums: Sums, around: Sequence[int], *, backwards: bool = False) -> float:
    length = around[2] - around[1]
    if length >= LONGEST:
        return 0.0
    back = max(returned(sums, around, backwards=backwards), 0.0)
    return PER_HALVING * back * min(math.log2(LONGEST / length), HALVINGS)


def returned(sums: Sums, around: Sequence[int], *, backwards: bool = False) -> float:
    """Return the share of the first step that the second undoes: 1 if all, 0 or less if none.

    Args:
        sums: of the history.
        around: where the level before begins, both steps, and where the level after ends.
        backwards: which share of the second the first undoes instead.
    """
    start, place, after, end = around
    there = sums.mean(place, after)
    near = sums.mean(max(start, place - REACH), place)
    beyond = sums.mean(after, min(end, after + REACH))
    if backwards:
        near, beyond = beyond, near
    return 1.0 - abs(beyond - near) / max(abs(there - near), 1e-12)


UNDONE = 0.85
"""Share of a step from which it has been undone. Of a drop of five standard deviations for twelve
nights a tenth is noise; what comes back by less has partly stayed, and may stand alone."""

Step = tuple[int, float]
"""A place and its evidence."""


def completed(
    sums: Sums,
    steps: Sequence[Step],
    proposed: Sequence[int],
    noise: NoiseOf,
    threshold: float,
) -> list[Step]:
    """``steps`` with the best proposal that undoes one of them, for each of which there is one."""
    whole = list(steps)
    for place, _ in steps:
        best, best_evidence = whole, threshold
        for other in _undoing(sums, whole, place, proposed):
            tried, weakest = _with(sums, whole, (place, other), noise)
            if weakest >= best_evidence:
                best, best_evidence = tried, weakest
        whole = best
    return whole


def _undoing(
    sums: Sums, steps: Sequence[Step], place: int, proposed: Sequence[int]
) -> Iterator[int]:
    """Proposals that undo the step at ``place``, between its neighbours."""
    borders = _borders(sums, [other for other, _ in steps])
    at = borders.index(place)
    start, end = borders[at - 1], borders[at + 1]
    for other in proposed:
        if start < other < end and 0 < abs(other - place) < LONGEST:
            first, second = sorted((place, other))
            if returned(sums, (start, first, second, end)) >= UNDONE:
                yield other


def _with(
    sums: Sums, steps: Sequence[Step], pair: tuple[int, int], noise: NoiseOf
) -> tuple[list[Step], float]:
    """``steps`` with both of ``pair``, and the least evidence of those whose sides that changed.

    The neighbours of the pair lose points to it, so they are weighed again as well; what was held
    against them stays.
    """
    weights = dict(steps)
    places = sorted({*weights, *pair})
    borders = _borders(sums, places)
    first = bisect(places, min(pair)) - 1  # in ``places``, from which ``borders`` is one ahead
    least = float("inf")
    for at in range(max(first - 1, 0), min(first + 3, len(places))):
        place = places[at]
        weight = evidence_at(sums, borders[at], place, borders[at + 2], noise)
        weights[place] = weight if place in pair else min(weight, weights[place])
        least = min(least, weights[place])
    return [(place, weights[place]) for place in places], least


def _borders(sums: Sums, places: Sequence[int]) -> list[int]:
    return [0, *places, len(sums.sums) - 1]


THRESHOLD = 4.7
"""Standard deviations that a change must have. A stretch of 200 points offers some 40 independent
places, twice (up and down), in noise that is never quite what it is taken for."""


def significant(
    y: Floats, proposed: Sequence[int], noise: NoiseOf, threshold: float = THRESHOLD
) -> list[Step]:
    """The proposals that stand, each with its evidence; recomputes only what a merge touched."""
    sums = Sums(y)
    borders = [0, *proposed, len(y)]
    inside = range(1, len(borders) - 1)
    evidences = [_evidence(sums, borders, at, noise) for at in inside]
    weights = [_doubted(evidences[at - 1], sums, borders, at) for at in inside]
    while weights and min(weights) < threshold:
        weakest = weights.index(min(weights))
        del weights[weakest], evidences[weakest], borders[weakest + 1]
        for at in range(max(weakest, 1), min(weakest + 1, len(weights)) + 1):
            evidences[at - 1] = _evidence(sums, borders, at, noise)
        for at in range(max(weakest - 1, 1), min(weakest + 2, len(weights)) + 1):
            weights[at - 1] = _doubted(evidences[at - 1], sums, borders, at)
    steps = list(zip(borders[1:-1], weights, strict=True))
    return completed(sums, steps, proposed, noise, threshold)


def _evidence(sums: Sums, borders: Sequence[int], at: int, noise: NoiseOf) -> float:
    return evidence_at(sums, borders[at - 1], borders[at], borders[at + 1], noise)


def _doubted(weight: float, sums: Sums, borders: Sequence[int], at: int) -> float:
    return weight - doubt(sums, borders, at) if weight != 0.0 else 0.0
