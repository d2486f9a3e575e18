"""Chooses levels to measure again, and workers for them, where nothing is new. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.analysis.variance import Spread


@dataclass(frozen=True, slots=True)
class UncertainLevel:
    """The newest level of a series, and who may measure it again."""

    series: str
    width: float
    """Half-width of its 95 % interval, as a share; infinite while too little is known."""
    processes: int
    """That measuring it again takes."""
    points: Mapping[str, int]
    """By worker that may measure it: how many points of the series it has measured."""


def width_of(spread: Spread | None) -> float:
    """The half-width of the 95 % interval of a series' newest level, as a share.

    Infinite where its history is too short to tell, or has values that are not above zero.
    """
    reach = spread.level_reach() if spread else None
    return math.inf if reach is None else math.expm1(reach)


def least_certain(
    levels: Sequence[UncertainLevel], budget: int
) -> list[tuple[UncertainLevel, str]]:
    """Choose levels, the widest first, each with the worker that has measured it least.

    Each worker gets one level. All together take ``budget`` processes at most.
    """
    free = {worker for level in levels for worker in level.points}
    chosen = []
    for level in sorted(levels, key=lambda one: (-one.width, one.series)):
        able = free & level.points.keys()
        if able and level.processes <= budget:
            worker = min(able, key=lambda name: (level.points[name], name))
            chosen.append((level, worker))
            free.remove(worker)
            budget -= level.processes
    return chosen
