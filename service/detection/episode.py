"""A bad stretch that comes and goes: two steps that undo each other within some weeks.

A node that runs hot for eight nights makes two clear steps, and no revision made either. Real
changes that are reverted within the month exist, and are rarer. So both borders of a short level
must be the surer the shorter it is and the more exactly the history returns to where it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from service.detection.evidence import REACH, Sums

LONGEST = 32
"""Points: a month of nights. What stands for longer is a level, whatever comes after it."""
PER_HALVING = 2.0
"""Standard deviations asked for by each halving of the stretch, if it returns exactly."""
HALVINGS = 2.0
"""From 32 to 8 points; shorter ones are held back by their length already (``evidence.py``)."""


def doubt(sums: Sums, borders: Sequence[int], at: int) -> float:
    """What ``borders[at]`` must have beyond others, because a level beside it may be an episode."""
    before, place, after = borders[at - 1 : at + 2]
    doubts = [0.0]
    if after - place < LONGEST and at + 2 < len(borders):
        beyond = sums.mean(after, min(borders[at + 2], after + REACH))
        near = sums.mean(max(before, place - REACH), place)
        doubts.append(_doubt(after - place, near, sums.mean(place, after), beyond))
    if place - before < LONGEST and at >= 2:
        beyond = sums.mean(max(borders[at - 2], before - REACH), before)
        near = sums.mean(place, min(after, place + REACH))
        doubts.append(_doubt(place - before, near, sums.mean(before, place), beyond))
    return max(doubts)


def _doubt(length: int, near: float, there: float, beyond: float) -> float:
    """How short the stretch between two levels is, times how far ``beyond`` equals ``near``."""
    returned = 1.0 - abs(beyond - near) / max(abs(there - near), 1e-12)
    if returned <= 0.0:
        return 0.0
    return PER_HALVING * returned * min(math.log2(LONGEST / length), HALVINGS)
