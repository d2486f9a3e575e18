"""A bad stretch that comes and goes: two steps that undo each other within some weeks.

A node that runs hot for eight nights makes two clear steps, and no revision made either. Real
changes that are reverted within the month exist, and are rarer. So both borders of a short level
must be the surer the shorter it is and the more exactly the history returns to where it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from service.analysis.detection.evidence import REACH, Sums

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
