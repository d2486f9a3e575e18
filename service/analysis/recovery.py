"""Tells whether values are back at an earlier level. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

RECOVERED = 0.25
"""Largest share of a change that may remain for it to count as taken back."""
RETURNED = 3
"""Points in a row at the old level after which a change begins anew, if it was over for somebody:
two may be flukes."""
CLEARLY = 4.5
"""Median deviations that chance seldom exceeds: three standard deviations of normal noise."""


def share_left(before: float, after: float, later: float) -> float:
    """Give the share of a change that is left; below zero if the level went beyond the old one."""
    if min(before, after, later) <= 0:
        left, moved = later - before, after - before
    else:
        left, moved = math.log(later / before), math.log(after / before)
    return left / moved if moved else math.inf


def taken_back(before: float, after: float, later: float) -> bool:
    """Return True if the level ``later`` ends a change from ``before`` to ``after``.

    It is near enough to ``before``, or even beyond it.
    """
    return share_left(before, after, later) <= RECOVERED


Step = tuple[float, float]
"""The levels before and after a change."""


def fits(steps: Sequence[Step], later: float) -> dict[tuple[int, ...], float]:
    """Return how badly ``later`` fits each way in which it may take steps back.

    ``steps`` went the same way, one after the other, and stand. One of them may be taken back
    alone, by its place in ``steps``, or all from one on. The misfit is a share of what is taken
    back, ln to ln; empty where a level is not above zero.
    """
    if min([later, *(min(step) for step in steps)]) <= 0:
        return {}
    ways: dict[tuple[int, ...], float] = {}
    for at, (before, after) in enumerate(steps):
        alone = without(steps[at + 1 :], later)
        ways[at,] = abs(share_left(before, after, alone))
        since = tuple(range(at, len(steps)))
        ways[since] = abs(share_left(before, steps[-1][1], later))
    return ways


def singled_out(steps: Sequence[Step], later: float) -> int | None:
    """Return the place of the step, before the last one, that ``later`` takes back alone.

    A revert of the first of two leaves a level that nobody has seen: the second one's after, with
    the first undone.
    """
    ways = fits(steps, later)
    best = min(ways, key=lambda way: ways[way], default=())
    alone = len(best) == 1 and best[0] < len(steps) - 1
    return best[0] if alone and ways[best] <= RECOVERED else None


def without(steps: Sequence[Step], level: float) -> float:
    """Return ``level`` as it would be had none of ``steps`` happened.

    A step from zero, or to it, has no ratio that could be undone.
    """
    return level * math.prod(before / after for before, after in steps if min(before, after) > 0)


def clearly_at(level: float, other: float, values: Sequence[float], stray: float) -> bool:
    """Return True if some values lie at ``level``, not at ``other``, by more than chance.

    ``stray`` is the median deviation of single values from their level.
    """
    if not values:
        return False
    middle, reach = median(values), CLEARLY * stray / math.sqrt(len(values))
    return abs(middle - other) > max(abs(middle - level), reach)


def newest_return(
    values: Sequence[float], before: float, after: float, patience: int
) -> range | None:
    """Find the newest stretch at ``before`` in values that are at the level ``after`` by now.

    None if no stretch clearly is, or if fewer than ``patience`` points have followed since.
    """
    level = median(values) if values else 0.0
    stray = median(abs(value - level) for value in values) if values else 0.0
    back = [taken_back(before, after, value) for value in values]
    for stop in range(len(values) - patience, RETURNED - 1, -1):
        over, since = back[stop - RETURNED : stop], back[stop:]
        if since[0] or not all(over) or sum(since) > len(since) / 2:
            continue
        start = next((at + 1 for at in range(stop - 1, -1, -1) if not back[at]), 0)
        if clearly_at(before, after, values[start:stop], stray):
            return range(start, stop)
    return None
