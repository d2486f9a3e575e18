"""Merges the weakest proposal away until all that remain stand.

What merging has left of an episode is then completed (``completion.py``).

Merging one change of a pair strengthens or weakens its neighbours, whose sides grow, and theirs,
for which it may have ended an episode; all four are weighed again. Deterministic; of equals the
earliest goes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from service.analysis.detection.evidence import NoiseOf, Sums, evidence_at
from service.analysis.detection.history import Floats
from service.analysis.detection.paired_steps import Found, completed
from service.analysis.detection.transient import doubt

THRESHOLD = 4.7
"""Standard deviations that a change must have. A stretch of 200 points offers some 40 independent
places, twice (up and down), in noise that is never quite what it is taken for."""


def standing(
    y: Floats, proposed: Sequence[int], noise: NoiseOf, threshold: float = THRESHOLD
) -> list[Found]:
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
    found = list(zip(borders[1:-1], weights, strict=True))
    return completed(sums, found, proposed, noise, threshold)


def slow_standing(
    y: Floats, proposed: Sequence[int], noise: NoiseOf, threshold: float = THRESHOLD
) -> list[Found]:
    """The same, weighing everything anew after each merge: what ``standing`` is tested against."""
    kept = list(proposed)
    while True:
        borders = [0, *kept, len(y)]
        weights = [_weigh(Sums(y), borders, at, noise) for at in range(1, len(borders) - 1)]
        if not weights or min(weights) >= threshold:
            found = list(zip(kept, weights, strict=True))
            return completed(Sums(y), found, proposed, noise, threshold)
        del kept[weights.index(min(weights))]


def _weigh(sums: Sums, borders: Sequence[int], at: int, noise: NoiseOf) -> float:
    return _doubted(_evidence(sums, borders, at, noise), sums, borders, at)


def _evidence(sums: Sums, borders: Sequence[int], at: int, noise: NoiseOf) -> float:
    return evidence_at(sums, borders[at - 1], borders[at], borders[at + 1], noise)


def _doubted(found: float, sums: Sums, borders: Sequence[int], at: int) -> float:
    return found - doubt(sums, borders, at) if found != 0.0 else 0.0
