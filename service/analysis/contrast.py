"""One series under two conditions: how much better it is under the second, and how sure that is.

A revision counts once, however often it was measured. Where both sides have measured the same
revisions, those are compared with themselves: whatever else happened between revisions cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy.special import stdtrit

LEAST_EFFECT = 0.005
"""A smaller difference is never called one. Three processes a side of equal code are told apart by
their intervals alone in one comparison out of 80, and where processes differ by 0.27 %, in one out
of 250 by this much."""
SHOWN = 0.95
CALLED = 0.9875
"""By a history's noise a difference is called on this interval: as seldom wrongly, one time in 80,
as by the intervals of three processes a side."""
PAIRS = 3
"""So many revisions in common make pairs; two have one degree of freedom."""
MOST = 700.0
"""Largest logarithm, so that its ratio is a number."""


@dataclass(frozen=True, slots=True)
class SideDifference:
    """The ratio of two sides minus one, above zero where the second has more."""

    change: float
    low: float | None
    high: float | None
    """95 % interval: over revisions, and so over nights; None where there are too few."""
    is_called: bool
    """True for more than chance and `LEAST_EFFECT`."""
    pairs: int
    """Revisions that both sides measured; 0 where the sides were compared as wholes."""


def by_revision(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The mean logarithm of the values of each revision; values above zero only."""
    of: dict[str, list[float]] = {}
    for revision, value in values:
        if value > 0:
            of.setdefault(revision, []).append(math.log(value))
    return {revision: fmean(logs) for revision, logs in of.items()}


def contrast(before: Mapping[str, float], after: Mapping[str, float]) -> SideDifference | None:
    """Compare two sides, each as `by_revision` has it; None if either has nothing."""
    if not before or not after:
        return None
    common = before.keys() & after.keys()
    if len(common) >= PAIRS:
        differences = [after[revision] - before[revision] for revision in sorted(common)]
        error, freedom = math.sqrt(variance(differences) / len(differences)), len(differences) - 1.0
        return _contrast(fmean(differences), error, freedom, len(differences))
    one, other = list(before.values()), list(after.values())
    error, freedom = _welch(one, other)
    return _contrast(fmean(other) - fmean(one), error, freedom, 0)


def _welch(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Standard error and degrees of freedom of a difference of means; 0 where they are unknown."""
    if min(len(one), len(other)) < 2:
        return 0.0, 0.0
    parts = [variance(side) / len(side) for side in (one, other)]
    total = sum(parts)
    spread = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (one, other), strict=True))
    return math.sqrt(total), total**2 / spread if spread else math.inf


def _contrast(difference: float, error: float, freedom: float, pairs: int) -> SideDifference:
    change = _share(difference)
    if not freedom:
        return SideDifference(change, None, None, is_called=False, pairs=pairs)
    shown, called = (
        float(stdtrit(min(freedom, 1e6), (1 + level) / 2)) * error for level in (SHOWN, CALLED)
    )
    sure = abs(difference) > called and abs(change) >= LEAST_EFFECT
    return SideDifference(
        change, _share(difference - shown), _share(difference + shown), sure, pairs
    )


def _share(logarithm: float) -> float:
    return math.expm1(min(logarithm, MOST))
