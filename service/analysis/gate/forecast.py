"""Forecasts how soon a gate decides, and how small a change it sees, from the noise between pairs.

Gates are simulated with the intervals that decide real ones: five hundred, normal, always the same.
As intervals move with what they are about, one simulation of equal revisions serves every change.
A noise that few pairs told is drawn anew for each gate, as wide as those pairs leave it open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri

from service.analysis.gate.metrics import Levels
from service.analysis.gate.noise import PairNoise
from service.analysis.gate.sequential import Looks, Values, intervals
from service.analysis.statement import Statement
from service.schemas.gate import CaseForecast, NoiseSource
from service.schemas.policy import Limit, Policy

GATES, SEED = 500, 1
POWER = 0.8
"""Probability with which a change has to be seen to be within reach: the usual one."""
USUAL = 6
"""Pairs that a case of unknown noise is taken to need; most need four to seven."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One case before a gate: its noise, if known, and the seconds of its first and later pairs."""

    case_key: str
    noise: PairNoise | None
    first_s: float
    later_s: float

    def spent_s(self, pairs: float) -> float:
        """Seconds of so many pairs."""
        return self.first_s + max(pairs - 1, 0) * self.later_s


@dataclass(frozen=True, slots=True)
class Power:
    """Statistical power of a number of pairs."""

    pairs: float
    """Mean until equal revisions are decided."""
    chance: float
    reachable: float
    """Smallest change, from that of the limit on, that is seen with a probability of `POWER`."""


def forecast(
    cases: Sequence[Expected], policy: Policy, budget_s: float, workers: int = 1
) -> list[CaseForecast[Statement]]:
    """Tell for each case the pairs and the time to expect, and the chance to see its limit.

    Each case gets its least pairs one after the other, then pairs come in rounds (`next_places`).
    From these the other cases drop out: as soon as equal ones usually are decided, or after their
    least pairs where their limit is out of reach. Several ``workers`` share the other cases.
    """
    levels = Levels.of(policy, [case.case_key for case in cases])
    usual = [_usual(case, policy, levels) for case in cases]
    rounds_s = [
        [case.spent_s(min(pairs, count)) for case, pairs in zip(cases, usual, strict=True)]
        for count in range(1, levels.max_pairs + 1)
    ]
    told = []
    for place, case in enumerate(cases):
        least = range(1, levels.min_pairs + 1)
        beside_s = [
            math.fsum(rounds_s[levels.min_pairs - 1][:place])
            if count in least
            else math.fsum(spent_s) - spent_s[place]
            for count, spent_s in enumerate(rounds_s, start=1)
        ]
        fits = [
            case.spent_s(n) + more_s / workers <= budget_s
            for n, more_s in enumerate(beside_s, start=1)
        ]
        told.append(_told(case, policy, levels, sum(fits)))
    return told


def _usual(case: Expected, policy: Policy, levels: Levels) -> float:
    if case.noise is None:
        return min(max(USUAL, levels.min_pairs), levels.max_pairs)
    power = power_of(case.noise, policy.rule_of(case.case_key).limits[0], levels, levels.max_pairs)
    return power.pairs if power.chance >= POWER else levels.min_pairs


def _told(case: Expected, policy: Policy, levels: Levels, most: int) -> CaseForecast[Statement]:
    limit = policy.rule_of(case.case_key).limits[0]
    change = _to_see(limit)
    known = CaseForecast[Statement](
        case_key=case.case_key,
        noise=case.noise and case.noise.deviation,
        known_by=case.noise and case.noise.known_by,
        most_pairs=most,
        change=change,
        sentence=Statement.of("noise_unknown"),
    )
    if most < levels.min_pairs:
        short = Statement.of("budget_short", pairs=levels.min_pairs)
        return known.model_copy(update={"chance": 0.0, "sentence": short})
    if case.noise is None:
        return known
    power = power_of(case.noise, limit, levels, most)
    facts = {"chance": power.chance, "reachable": power.reachable, "change": change}
    spent_s = case.spent_s(power.pairs)
    kind = "within_reach" if power.chance >= POWER else "out_of_reach"
    said = Statement.of(
        kind, **facts, noise=case.noise.deviation, pairs=power.pairs, most=most, spent_s=spent_s,
        of_budget=most < levels.max_pairs,
    )  # fmt: skip
    return known.model_copy(
        update=facts | {"pairs": power.pairs, "duration_s": spent_s, "sentence": said}
    )


def _to_see(limit: Limit) -> float:
    return min(limit.max_regression + limit.margin, 0.999)


@lru_cache(maxsize=1_000)
def power_of(noise: PairNoise, limit: Limit, levels: Levels, most: int) -> Power:
    """Compute what ``most`` pairs of this noise tell under one limit; no trade is reckoned with."""
    drawn, least = _normal(most) * _deviations(noise)[:, None], levels.min_pairs
    strict, plain = (
        intervals(
            drawn,
            error=error,
            min_pairs=least,
            max_pairs=levels.max_pairs,
            last=True,
            prior=noise.prior if noise.known_by is NoiseSource.GATES else None,
        )
        for error in (levels.strict, levels.plain)
    )
    both = list(zip(strict, plain, strict=True))
    to_see = math.log1p(-_to_see(limit))
    equal = np.array([settled(*one, limit=limit)[0] for one in both])
    done, worse = (
        np.array(flags)
        for flags in zip(*(settled(*one, limit=limit, by=to_see) for one in both), strict=True)
    )
    equal[-1] = done[-1] = True
    seen = worse[done.argmax(axis=0), range(GATES)]
    _, high, agree = both[-1][0]
    needed = np.quantile(np.where(agree, high, math.inf), POWER, method="inverted_cdf")
    return Power(
        pairs=float(least + equal.argmax(axis=0).mean()),
        chance=float(seen.mean()),
        reachable=-math.expm1(min(to_see, math.log1p(-limit.max_regression) - float(needed))),
    )


@lru_cache(maxsize=64)
def _normal(pairs: int) -> Values:
    return np.random.default_rng(SEED).standard_normal((pairs, GATES)).T


def _deviations(noise: PairNoise) -> Values:
    """Draw what the true deviation may be, given what was found, at even steps of probability."""
    if math.isinf(noise.freedom):
        return np.full(GATES, noise.deviation)
    surplus = chdtri(noise.freedom, (np.arange(GATES) + 0.5) / GATES)
    return np.asarray(noise.deviation * np.sqrt(noise.freedom / surplus), float)


Flags = npt.NDArray[np.bool_]


def settled(strict: Looks, plain: Looks, *, limit: Limit, by: float = 0.0) -> tuple[Flags, Flags]:
    """Return which gates a look decides under one limit, and which of these as worse.

    The intervals are of log ratios, signed so that + is better, and are moved ``by`` as much;
    `decide_case` says the same of one gate.
    """
    agree = strict[2] & plain[2]
    worse = agree & (strict[1] + by < math.log1p(-limit.max_regression))
    different = (strict[1] + by < 0) | (strict[0] + by > 0)
    same = plain[1] + by < math.log1p(limit.allowed)
    allowed = plain[0] + by > math.log1p(-limit.allowed)
    return worse | (agree & allowed & (different | same)), worse
