"""Whether a node became slow in everything, and whether it is well again. Pure.

A node is held against the others at the same revisions, and against its own past: machines of one
kind differ by a per cent or so for ever, which is no news.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from service.attribution import Residual
from service.attribution.node import (
    LEAST_CONTRAST,
    NOISE_MULTIPLE,
    PERSISTENCE,
    TO_SIGMA,
    Round,
    rounds,
)

PAST = 3
"""Revisions of its own that a node needs before anyone can say that it has changed."""
LEAST_RESULTS = 4
"""In fewer results, chance leans one way too often among many nodes and nights."""
LEFT = 0.5
"""A node is well again when less than half of what it had lost is left."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A node that has become slower than the others."""

    worker: str
    first_bad: str
    """The first revision that it measured slowly."""
    last_good: str
    share: float
    """How much slower than before, against the others: 0.05 is five per cent."""
    results: int
    """That say so, over all its series, at so many ``revisions``."""
    revisions: int


def slowdown(residuals: Sequence[Residual], worker: str) -> Slowdown | None:
    """Say whether ``worker`` has become slow in everything; None if it has not, or nobody knows."""
    met = rounds(residuals, worker)
    if len(met) < PAST + PERSISTENCE:
        return None
    limit = _limit(residuals, worker)
    for begin in range(PAST, len(met) - PERSISTENCE + 1):
        usual = _usual(met[:begin])
        newer = [_less(each, usual) for each in met[begin:]]
        if _all_apart(newer, limit):
            size = median(median(each.contrasts) for each in newer)
            return Slowdown(
                worker=worker,
                first_bad=met[begin].revision,
                last_good=met[begin - 1].revision,
                share=math.expm1(size),
                results=sum(len(each.contrasts) for each in newer),
                revisions=len(newer),
            )
    return None


def _all_apart(newer: Sequence[Round], limit: float) -> bool:
    """Whether a node leans the same way at every revision, in enough results of several series."""
    pooled = Round("", tuple(contrast for each in newer for contrast in each.contrasts))
    return (
        len(pooled.contrasts) >= LEAST_RESULTS
        and pooled.stands_apart(limit)
        and all(median(each.contrasts) >= limit for each in newer)
    )


def well_again(residuals: Sequence[Residual], worker: str, last_good: str, share: float) -> bool:
    """Whether the newest rounds of a slow node are near what they were up to ``last_good``."""
    met = rounds(residuals, worker)
    names = [each.revision for each in met]
    if last_good not in names or len(met) - names.index(last_good) - 1 < PERSISTENCE:
        return False
    usual = _usual(met[: names.index(last_good) + 1])
    newest = [median(_less(each, usual).contrasts) for each in met[-PERSISTENCE:]]
    return max(newest) <= LEFT * math.log1p(share)


def _usual(met: Sequence[Round]) -> float:
    """How far a node was from the others anyway."""
    return median(median(each.contrasts) for each in met)


def _less(each: Round, usual: float) -> Round:
    return Round(each.revision, tuple(contrast - usual for contrast in each.contrasts))


def _limit(residuals: Iterable[Residual], worker: str) -> float:
    """How far a node must stand apart, in logs: beyond the noise of single results elsewhere."""
    others = [abs(each.log_residual) for each in residuals if each.worker != worker]
    return max(LEAST_CONTRAST, NOISE_MULTIPLE * TO_SIGMA * median(others)) if others else math.inf
