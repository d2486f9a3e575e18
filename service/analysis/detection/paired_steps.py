"""The other step of a short level, where merging has left only one of the two standing.

Doubt weighs on both steps of an episode, and may take one and leave the other: a drop that is over
would stay, or a recovery stand as an improvement. Whoever was told of the one is to be told of the
other, so it needs no more than any other change, without what is held against episodes.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence

from service.analysis.detection.evidence import NoiseOf, Sums, evidence_at
from service.analysis.detection.transient import LONGEST, returned

UNDONE = 0.85
"""Share of a step from which it has been undone. Of a drop of five standard deviations for twelve
nights a tenth is noise; what comes back by less has partly stayed, and may stand alone."""

Found = tuple[int, float]
"""A place and its evidence."""


def completed(
    sums: Sums,
    found: Sequence[Found],
    proposed: Sequence[int],
    noise: NoiseOf,
    threshold: float,
) -> list[Found]:
    """``found`` with the best proposal that undoes one of them, for each of which there is one."""
    whole = list(found)
    for place, _ in found:
        best, best_evidence = whole, threshold
        for other in _undoing(sums, whole, place, proposed):
            tried, weakest = _with(sums, whole, (place, other), noise)
            if weakest >= best_evidence:
                best, best_evidence = tried, weakest
        whole = best
    return whole


def _undoing(
    sums: Sums, found: Sequence[Found], place: int, proposed: Sequence[int]
) -> Iterator[int]:
    """Proposals that undo the step at ``place``, between its neighbours."""
    borders = _borders(sums, [other for other, _ in found])
    at = borders.index(place)
    start, end = borders[at - 1], borders[at + 1]
    for other in proposed:
        if start < other < end and 0 < abs(other - place) < LONGEST:
            first, second = sorted((place, other))
            if returned(sums, (start, first, second, end)) >= UNDONE:
                yield other


def _with(
    sums: Sums, found: Sequence[Found], pair: tuple[int, int], noise: NoiseOf
) -> tuple[list[Found], float]:
    """``found`` with both of ``pair``, and the least evidence of those whose sides that changed.

    The neighbours of the pair lose points to it, so they are weighed again as well; what was held
    against them stays.
    """
    weights = dict(found)
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
