"""Estimates the effects of a design's factors on throughput, alone and in pairs. Pure.

Effects are ratios: throughput with the high level over throughput with the low one, as a geometric
mean over the other factors' levels. Whether an effect is more than noise is decided by Lenth's
pseudo standard error (Technometrics 31, 1989), which needs no repeated runs: it takes the middle of
all contrasts for noise, and so is careful where many effects are large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median

from scipy.special import stdtrit

from benchmarks.catalog.factorial import Design, Effect, Levels
from service.schemas.reports import Effects, Term

CONFIDENCE = 0.95
"""Of the margin that a contrast must pass."""
TRIM = 2.5
"""Contrasts beyond so many first estimates of the noise are left out of the second one."""


def estimate(design: Design, rates: Mapping[Levels, float]) -> Effects:
    """Main effects and interactions of two.

    Args:
        design: which runs there are.
        rates: items per second of the runs that have a number, all above zero.
    """
    runs = design.runs()
    missing = tuple(design.case(levels).key for levels in runs if levels not in rates)
    terms: tuple[Term, ...] = ()
    if not missing:
        logs = [math.log(rates[levels]) for levels in runs]
        contrasts = {effect: contrast(effect, runs, logs) for effect in design.effects()}
        margin = lenth_margin(list(contrasts.values()))
        pairs = ((effect, value) for effect, value in contrasts.items() if len(effect) <= 2)
        ordered = sorted(pairs, key=lambda pair: (len(pair[0]), -abs(pair[1])))
        terms = tuple(_term(design, effect, value, margin) for effect, value in ordered)
    return Effects(design.workload, len(runs), missing, terms, tuple(design.limits()))


def contrast(effect: Effect, runs: Sequence[Levels], values: Sequence[float]) -> float:
    """Mean value where the product of the effect's levels is +1, less the mean where it is -1."""
    signs = [math.prod(levels[at] for at in effect) for levels in runs]
    high = fmean(value for value, sign in zip(values, signs, strict=True) if sign > 0)
    low = fmean(value for value, sign in zip(values, signs, strict=True) if sign < 0)
    return high - low


def lenth_margin(contrasts: Sequence[float]) -> float:
    """Lenth's 95 % margin of error of a contrast; infinite with fewer than three contrasts."""
    sizes = [abs(value) for value in contrasts]
    if len(sizes) < 3:
        return math.inf
    first = 1.5 * median(sizes)
    error = 1.5 * median([size for size in sizes if size <= TRIM * first])
    return float(stdtrit(len(sizes) / 3, (1 + CONFIDENCE) / 2)) * error


def _term(design: Design, effect: Effect, value: float, margin: float) -> Term:
    # A contrast of an interaction is half the difference between two effects.
    scale = len(effect)
    return Term(
        name=design.name(effect),
        meaning=_meaning(design, effect),
        ratio=math.exp(scale * value),
        low=math.exp(scale * (value - margin)) if math.isfinite(margin) else 0.0,
        high=math.exp(min(scale * (value + margin), 700.0)),
        clear=abs(value) > margin,
    )


def _meaning(design: Design, effect: Effect) -> str:
    steps = [
        f"{factor.axis}={factor.high} over {factor.low}"
        for factor in (design.factors[at] for at in sorted(effect))
    ]
    if len(steps) == 1:
        return steps[0]
    other = design.factors[max(effect)]
    return f"{steps[0]}, with {other.axis}={other.high} over with {other.low}"
