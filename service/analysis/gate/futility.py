"""Stops a case for futility: where all the pairs that it may have would leave it undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from scipy.special import chdtri

from service.analysis.gate.metrics import Levels
from service.analysis.gate.noise import PairNoise
from service.analysis.gate.sequential import half_width
from service.schemas.policy import Limit

ERROR = 0.05
"""Probability that a look takes the noise for larger than it is."""
FEWEST = 4
"""Pairs without which nothing is given up: one of them may be wild."""


def is_futile(
    differences: Sequence[float], limit: Limit, levels: Levels, prior: PairNoise | None
) -> bool:
    """Return True if the last pair would decide nothing, were the noise the least that it may be.

    The interval would be wider than what is allowed, and the change too small to be called one.

    Args:
        differences: log ratios of the pairs so far in the limit's metric.
        limit: the limit in question.
        levels: the probabilities that intervals may miss, and the numbers of pairs.
        prior: noise between pairs as earlier gates found it.
    """
    if len(differences) < FEWEST:
        return False
    noise = _least(differences, prior)
    same = _half(noise, levels, levels.plain, prior) < -math.log1p(-limit.allowed)
    different = abs(fmean(differences)) > _half(noise, levels, levels.strict, prior)
    return not (same or different)


def reachable(noise: float, levels: Levels, prior: PairNoise | None) -> float:
    """Return the smallest limit, as a share, that all pairs with this noise would decide."""
    return -math.expm1(-_half(noise, levels, levels.plain, prior))


def _half(noise: float, levels: Levels, error: float, prior: PairNoise | None) -> float:
    most = levels.max_pairs
    return half_width(noise, most, error, levels.min_pairs, most, prior)


def _least(differences: Sequence[float], prior: PairNoise | None) -> float:
    """The noise below which the true one lies with a probability of `ERROR` only.

    The pair that is farthest from the others does not count: from six pairs on intervals set it
    aside.
    """
    middle = median(differences)
    kept = sorted(differences, key=lambda one: abs(one - middle))[:-1]
    freedom = len(kept) - 1.0
    total = freedom * stdev(kept) ** 2
    if prior is not None:
        freedom += prior.freedom
        total += prior.freedom * prior.deviation**2
    return math.sqrt(total / float(chdtri(freedom, ERROR)))
