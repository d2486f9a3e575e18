"""One way to explain a stretch of history, and how many words it needs.

Exact optimal partitioning proposes the cuts that explain a stretch best at a low price per cut.
Then the weakest proposal is removed until all that remain are significant: what is not proposed is
never found.

A bad stretch that comes and goes is doubted: a node that runs hot for eight nights makes two clear
steps, and no revision made either. Real changes that are reverted within the month exist, and are
rarer. So both borders of a short level must be the surer the shorter it is and the more exactly the
history returns to where it was. A step that is undone, comes back and stays is no such stretch:
what is bad for a while does not find the same level again and keep it.

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
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from service.analysis.detection import robust, support
from service.analysis.detection.evidence import REACH, NoiseOf, Sums, evidence_at
from service.analysis.detection.robust import Floats

LONGEST = 32
"""Points: a month of nights. What stands for longer is a level, whatever comes after it."""
PER_HALVING = 2.0
"""Standard deviations asked for by each halving of the stretch, if it returns exactly."""
UNDONE = 0.85
"""Share of a step from which it has been undone. Of a drop of five standard deviations for twelve
nights a tenth is noise; what comes back by less has partly stayed, and may stand alone."""
HALVINGS = 2.0
"""From 32 to 8 points; shorter ones are held back by their length already (``evidence.py``)."""


STAYED = 8
"""Points after which the newest level is one that a step came back to: with fewer, two-mode noise
alarmed twice more in 6,600 points."""


def doubt(
    sums: Sums, borders: Sequence[int], at: int, known: frozenset[int] = frozenset()
) -> float:
    """Return the evidence that ``borders[at]`` needs beyond others, in standard deviations.

    It is more than zero where a level beside it may be an episode. A level that a fact begins or
    ends, one of the ``known`` places, is none.
    """
    doubts = [0.0]
    # Each border asks which share of its own step is undone, so the one behind looks backwards.
    if at + 2 < len(borders) and _doubtful(sums, borders, at, known):
        doubts.append(_doubt(sums, borders[at - 1 : at + 3]))
    if at >= 2 and _doubtful(sums, borders, at - 1, known):
        doubts.append(_doubt(sums, borders[at - 2 : at + 2], backwards=True))
    return max(doubts)


def _doubtful(sums: Sums, borders: Sequence[int], at: int, known: frozenset[int]) -> bool:
    return known.isdisjoint(borders[at : at + 2]) and not relapses(sums, borders, at)


def relapses(sums: Sums, borders: Sequence[int], at: int) -> bool:
    """Return True if the level from ``borders[at]`` on lies within a step that was undone and
    came back to stay."""
    return any(_came_back(sums, borders, first) for first in (at - 1, at))


def _came_back(sums: Sums, borders: Sequence[int], first: int) -> bool:
    """Return True if the step at ``borders[first]`` is undone by the next, which the third undoes.

    After that the level stays: it is the newest, or a long one, or what follows is not a return.
    """
    if first < 1 or first + 3 >= len(borders):
        return False
    undone = returned(sums, borders[first - 1 : first + 3])
    again = returned(sums, borders[first : first + 4])
    if min(undone, again) < UNDONE:
        return False
    if first >= 2 and returned(sums, borders[first - 2 : first + 2]) >= UNDONE:
        return False  # itself a way back: what stays is what was there before
    stayed = borders[first + 3] - borders[first + 2]
    newest = first + 4 >= len(borders)
    if newest or stayed >= LONGEST:
        return stayed >= STAYED
    return returned(sums, borders[first + 1 : first + 5]) < UNDONE


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


Step = tuple[int, float]
"""A place and its evidence."""


def completed(
    sums: Sums,
    steps: Sequence[Step],
    proposed: Sequence[int],
    noise: NoiseOf,
    threshold: float,
    supports: support.Supports = support.NONE,
) -> list[Step]:
    """``steps`` with the best proposal that undoes one of them, for each of which there is one."""
    whole = list(steps)
    for place, _ in steps:
        best, best_evidence = whole, threshold
        for other in _undoing(sums, whole, place, proposed):
            tried, weakest = _with(sums, whole, (place, other), noise, supports)
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
    sums: Sums,
    steps: Sequence[Step],
    pair: tuple[int, int],
    noise: NoiseOf,
    supports: support.Supports,
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
        weight = _evidence(sums, borders, at + 1, noise, supports)
        weights[place] = weight if place in pair else min(weight, weights[place])
        least = min(least, weights[place])
    return [(place, weights[place]) for place in places], least


def _borders(sums: Sums, places: Sequence[int]) -> list[int]:
    return [0, *places, len(sums.sums) - 1]


THRESHOLD = 4.7
"""Standard deviations that a change must have. A stretch of 200 points offers some 40 independent
places, twice (up and down), in noise that is never quite what it is taken for."""


def significant(
    y: Floats,
    proposed: Sequence[int],
    noise: NoiseOf,
    threshold: float = THRESHOLD,
    supports: support.Supports = support.NONE,
) -> list[Step]:
    """The proposals that stand, each with its evidence; recomputes only what a merge touched."""
    sums, known = Sums(y), frozenset(support.facts(supports))
    borders = [0, *proposed, len(y)]
    inside = range(1, len(borders) - 1)
    evidences = [_evidence(sums, borders, at, noise, supports) for at in inside]
    weights = [_doubted(evidences[at - 1], sums, borders, at, known) for at in inside]
    while weights and min(weights) < threshold:
        weakest = weights.index(min(weights))
        del weights[weakest], evidences[weakest], borders[weakest + 1]
        for at in range(max(weakest, 1), min(weakest + 1, len(weights)) + 1):
            evidences[at - 1] = _evidence(sums, borders, at, noise, supports)
        for at in range(max(weakest - 4, 1), min(weakest + 5, len(weights)) + 1):
            weights[at - 1] = _doubted(evidences[at - 1], sums, borders, at, known)
    steps = list(zip(borders[1:-1], weights, strict=True))
    return completed(sums, steps, proposed, noise, threshold, supports)


def _evidence(
    sums: Sums, borders: Sequence[int], at: int, noise: NoiseOf, supports: support.Supports
) -> float:
    start, place, end = borders[at - 1 : at + 2]
    weight = evidence_at(sums, start, place, end, noise)
    known = supports.get(place)
    if known is None:
        return weight
    return weight + known.of(sums.mean(place, end) - sums.mean(start, place))


def _doubted(
    weight: float, sums: Sums, borders: Sequence[int], at: int, known: frozenset[int]
) -> float:
    return weight - doubt(sums, borders, at, known) if weight != 0.0 else 0.0


PRICE = 6.0
"""Per cut, in squared noise: half of what a test over a hundred places would ask."""
SHORTEST = 5
"""Points between cuts; a shorter stretch is an outlier or a bad day, not a level."""


def cuts(y: Floats, noise: float, shortest: int = SHORTEST) -> list[int]:
    """First points of new levels, minimising squared residuals plus ``PRICE`` per cut.

    ``best[end]`` is the largest saving over the first ``end`` points; quadratic in their number,
    which ``windows.py`` bounds. ``shortest`` neighbouring ends are found at once: none of them
    can follow another.
    """
    count = len(y)
    if count < 2 * shortest:
        return []
    sums = np.concatenate(([0.0], np.cumsum(y - y.mean())))
    places = np.arange(count + 1.0)
    best = np.full(count + 1, -np.inf)
    best[0] = 0.0
    before = np.zeros(count + 1, dtype=np.int64)
    too_short = np.triu(np.full((shortest, shortest), -np.inf), 1)
    for first in range(shortest, count + 1, shortest):
        ends = slice(first, first + shortest)
        gain = sums[ends, None] - sums[:first]
        gain *= gain
        gain /= places[ends, None] - places[:first]
        gain += best[:first]
        gain[:, -shortest:] += too_short[: len(gain)]
        before[ends] = gain.argmax(axis=1)
        best[ends] = gain.max(axis=1) - PRICE * noise * noise
    return _walk_back(before.tolist())


def _walk_back(before: list[int]) -> list[int]:
    places = [before[-1]]
    while places[-1] > 0:
        places.append(before[places[-1]])
    return places[-2::-1]


WORDS_PER_CHANGE = 6.0
"""Nats to tell a change: where (log of 200 places is 5.3) and how large."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A stretch as levels plus noise, after what else explains it was taken out."""

    y: Floats
    """Cleaned: machines, modes and drift taken out, outliers pulled back."""
    noise: NoiseOf
    changes: tuple[tuple[int, float], ...]
    """First points of new levels, each with its evidence."""
    mode_distance: float = 0.0
    drift: float = 0.0
    """Per point."""
    offsets: dict[int, float] = field(default_factory=dict)
    """By the number of each machine in the stretch; empty where machines are not named."""

    @property
    def places(self) -> list[int]:
        """First points of new levels."""
        return [place for place, _ in self.changes]

    def drifted(self, place: float) -> float:
        """Return what the drift has added at a place: zero in the middle of the stretch."""
        return self.drift * (place - (len(self.y) - 1) / 2)


def explain(
    y: Floats, threshold: float = THRESHOLD, supports: support.Supports = support.NONE
) -> Explanation:
    """Levels plus noise and nothing else."""
    known = support.known_borders(supports)
    level = medians(y, known) if known else 0.0  # a fact of one point is no outlier
    rest, scale = robust.clipped(y - level)
    noise = NoiseOf(scale, robust.autocorrelation(rest))
    return settled(Explanation(rest + level, noise, ()), threshold, supports)


def settled(
    base: Explanation, threshold: float = THRESHOLD, supports: support.Supports = support.NONE
) -> Explanation:
    """``base`` with its changes proposed and verified anew."""
    quiet = replace(base.noise, wander=1.0)
    proposed = support.with_borders(cuts(base.y, base.noise.scale), supports, SHORTEST)
    changes = significant(base.y, proposed, quiet, threshold, supports)
    places = [place for place, _ in changes]
    noise = replace(quiet, wander=robust.wander(base.y - levels(base.y, places), quiet.scale))
    if changes and noise.wander > 1.0:  # what falls in quiet noise does not stand in a restless one
        changes = significant(base.y, places, noise, threshold, supports)
    return replace(base, noise=noise, changes=tuple(changes))


def sketch(y: Floats, threshold: float, shortest: int, grain: int) -> Explanation:
    """Levels plus noise to the nearest ``grain`` points, in a ``grain``-th of the time."""
    cleaned, scale = robust.clipped(y)
    noise = NoiseOf(scale, robust.autocorrelation(cleaned))
    whole = len(y) // grain * grain
    means = cleaned[:whole].reshape(-1, grain).mean(axis=1)
    coarse = cuts(means, scale / math.sqrt(grain), max(shortest // grain, 1))
    changes = significant(cleaned, [grain * place for place in coarse], noise, threshold)
    return Explanation(cleaned, noise, tuple(changes))


def levels(y: Floats, places: list[int]) -> Floats:
    """The mean of each level, at each of its points."""
    borders = [0, *places, len(y)]
    lengths = np.diff(borders)
    means = np.add.reduceat(y, borders[:-1]) / lengths
    return np.repeat(means, lengths)


def medians(y: Floats, places: list[int]) -> Floats:
    """The median of each level, at each of its points."""
    borders = [0, *places, len(y)]
    parts = [y[start:end] for start, end in pairwise(borders)]
    return np.concatenate([np.full(len(part), np.median(part)) for part in parts])


def words(y: Floats, explained: Explanation) -> float:
    """Nats to tell the points of ``y`` given their levels, and the levels."""
    residuals = y - levels(y, explained.places)
    limit = robust.CLIP * robust.spread(residuals) + 1e-12
    deviation = max(float(np.clip(residuals, -limit, limit).std()), robust.FLOOR)
    told_by_neighbour = 0.5 * math.log(1.0 - explained.noise.autocorrelation**2)
    return len(y) * (math.log(deviation) + told_by_neighbour) + WORDS_PER_CHANGE * len(
        explained.changes
    )
