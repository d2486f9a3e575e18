"""Stops a case for futility: where the pairs that it may still have would hardly decide it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

from service.analysis.gate.metrics import Levels
from service.analysis.gate.noise import FLOOR, PairNoise
from service.analysis.gate.sequential import half_width
from service.schemas.policy import Limit

LEAST_CHANCE = 0.05
"""Chance of a decision by the last pair below which a case is given up."""
TRIMMED = {3: 1.93, 4: 1.72, 5: 1.61, 6: 1.53, 7: 1.47, 8: 1.43, 9: 1.39}
"""By the number of values that are left without the highest and the lowest: times their deviation,
as much as all of them deviate on average, if they are normal (400,000 draws each)."""
FEWEST = 2 + min(TRIMMED)


@dataclass(frozen=True, slots=True)
class Reach:
    """Noise between the pairs of a case, and the limit that they could decide."""

    noise: float
    """Standard deviation between pairs."""
    limit: float
    """The smallest limit, as a share, that all permitted pairs would decide."""


def given_up(
    differences: Sequence[float], limit: Limit, levels: Levels, prior: PairNoise | None
) -> Reach | None:
    """Return what is within reach, if the last pair would hardly decide on a limit; else None.

    The mean of all pairs is foretold from that of the pairs so far, with their noise.

    Args:
        differences: log ratios of the pairs so far in the limit's metric; + is better.
        limit: the limit in question.
        levels: the probabilities that intervals may miss, and the numbers of pairs.
        prior: noise between pairs as earlier gates found it.
    """
    count = len(differences)
    if not FEWEST <= count < levels.max_pairs:
        return None
    noise = noise_of(differences)
    plain, strict = (_half(noise, levels, error, prior) for error in (levels.plain, levels.strict))
    spread = noise * math.sqrt(1 / count - 1 / levels.max_pairs)
    last = NormalDist(fmean(sorted(differences)[1:-1]), spread)
    good = 1 - last.cdf(plain + math.log1p(-limit.allowed))
    worse = last.cdf(math.log1p(-limit.max_regression) - strict)
    return None if good + worse >= LEAST_CHANCE else Reach(noise, -math.expm1(-plain))


def noise_of(differences: Sequence[float]) -> float:
    """Return the standard deviation of pairs; one wild pair at each end does not count."""
    kept = sorted(differences)[1:-1]
    trimmed = TRIMMED.get(len(kept), min(TRIMMED.values())) * stdev(kept)
    return max(min(stdev(differences), trimmed), FLOOR)


def _half(noise: float, levels: Levels, error: float, prior: PairNoise | None) -> float:
    """Half of the last interval; a prior that says more noise than there is widens nothing."""
    few = levels.max_pairs, error, levels.min_pairs, levels.max_pairs
    return min(half_width(noise, *few, known) for known in {None, prior})
