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
    if at + 2 < len(borders):
        doubts.append(_doubt(sums, (before, place), (place, after), (after, borders[at + 2])))
    if at >= 2:
        doubts.append(_doubt(sums, (place, after), (before, place), (borders[at - 2], before)))
    return max(doubts)


Part = tuple[int, int]


def _doubt(sums: Sums, near: Part, episode: Part, beyond: Part) -> float:
    """``episode`` between two levels: how short it is, times how far ``beyond`` equals ``near``."""
    length = episode[1] - episode[0]
    if length >= LONGEST:
        return 0.0
    here, there, then = (_level(sums, part, episode) for part in (near, episode, beyond))
    returned = 1.0 - abs(then - here) / max(abs(there - here), 1e-12)
    return PER_HALVING * max(returned, 0.0) * min(math.log2(LONGEST / length), HALVINGS)


def _level(sums: Sums, part: Part, episode: Part) -> float:
    """Mean of the part's points within reach of the episode."""
    start = max(part[0], episode[0] - REACH)
    return sums.part(start, min(part[1], episode[1] + REACH))[0]
