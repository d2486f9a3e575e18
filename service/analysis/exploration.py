"""Chooses which cases to try next: those from which most may be gained in their time. Pure.

The logarithm of a case's rate is taken for a sum of effects: one for each axis's value, and one for
each pair of values. Effects are normal around zero, so what two cases share tells how alike their
rates are (a Gaussian process whose covariance counts shared values and pairs of them). How large
effects may be is weighed by the likelihood of what was measured. A case is worth its expected gain
over the best known rate (expected improvement: Jones, Schonlau and Welch 1998) for each second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr

from benchmarks.contracts import Case

Floats = NDArray[np.float64]

NOISE = 0.01
"""Standard deviation of a measured rate: nights and nodes, of one process."""
EFFECTS = (0.03, 0.1, 0.3)
"""Standard deviations of the effect of one axis's value, which the likelihood weighs."""
PAIR = 0.1
"""Likewise of a pair of values beyond what both do apart. Cases that differ one at a time say
nothing of pairs, and a layout may pay with half precision only: so large it is taken beforehand."""
LEAST_GAIN = 0.0001
"""Expected gain, on the logarithm, below which a case is not worth trying."""
MOST_TRIALS = 50
"""Trials of one plan: each is chosen anew among all candidates."""
LEVEL = 10.0
"""Standard deviation of the level of all rates: so wide that what was measured sets it."""


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """A case with its rate, in items per second, above zero."""

    case: Case
    rate: float


@dataclass(frozen=True, slots=True)
class Trial:
    """A case that is worth trying."""

    case: Case
    gain: float
    """Expected gain over the best known rate, on the logarithm."""
    chance: float
    """Probability that it is faster than the best known rate."""
    rate: float
    """Expected rate: the middle of what it may be."""


def plan(
    measured: Sequence[MeasuredCase], lasts_s: Sequence[tuple[Case, float]], budget_s: float
) -> list[Trial]:
    """Choose cases one after the other, as long as their time is within the budget.

    Each next trial takes the ones before for measured, with the rate that is expected of them:
    cases that are much alike are not all tried in one night.

    Args:
        measured: cases of one workload on one kind of hardware, one at least.
        lasts_s: the candidates, each with the seconds that measuring it takes.
        budget_s: seconds in all.
    """
    planned: list[Trial] = []
    known, left = list(measured), list(lasts_s)
    while left := [(case, lasts) for case, lasts in left if lasts <= budget_s]:
        if len(planned) == MOST_TRIALS:
            break
        worth = expected_gains(known, [case for case, _ in left])
        pairs = zip(worth, (lasts for _, lasts in left), strict=True)
        trial, lasts = max(pairs, key=lambda pair: pair[0].gain / pair[1])
        if trial.gain < LEAST_GAIN:
            break
        planned.append(trial)
        known.append(MeasuredCase(trial.case, trial.rate))
        left = [pair for pair in left if pair[0] is not trial.case]
        budget_s -= lasts
    return planned


def expected_gains(measured: Sequence[MeasuredCase], candidates: Sequence[Case]) -> list[Trial]:
    """Return the expected gain of each candidate, in the candidates' order.

    Args:
        measured: cases of one workload on one kind of hardware, one at least.
        candidates: cases of the same workload; some may be measured.
    """
    known = [one.case for one in measured]
    logs = np.log([one.rate for one in measured])
    level, best = float(logs.mean()), float(logs.max())
    axes = sorted({axis for case in (*known, *candidates) for axis in case.axes})
    inside, across = _shared(known, known, axes), _shared(candidates, known, axes)
    fits = [_fit(effect, inside, across, len(axes), logs - level) for effect in EFFECTS]
    likelihoods = np.array([fit.likelihood for fit in fits])
    weights = np.exp(likelihoods - likelihoods.max())
    by_effect = [(*fit.gain(best - level), fit.mean) for fit in fits]
    gain, chance, mean = np.average(np.array(by_effect), axis=0, weights=weights)
    numbers = zip(gain.tolist(), chance.tolist(), np.exp(mean + level).tolist(), strict=True)
    return [Trial(case, *of_case) for case, of_case in zip(candidates, numbers, strict=True)]


def _shared(some: Sequence[Case], others: Sequence[Case], axes: Sequence[str]) -> Floats:
    """Count the axes on which cases have the same value, [some, others]; absent is a value too."""
    count: Floats = np.zeros((len(some), len(others)))
    for axis in axes:
        left, right = (
            np.array([case.axes.get(axis, "") for case in side]) for side in (some, others)
        )
        count += left[:, None] == right[None, :]
    return count


@dataclass(frozen=True, slots=True)
class _Fit:
    """The values of candidates, by what was measured and a size of effects."""

    likelihood: float
    """Logarithm of the likelihood of the measured values, up to a constant."""
    mean: Floats
    deviation: Floats

    def gain(self, best: float) -> tuple[Floats, Floats]:
        """Return the expected gain over the ``best`` value, and the probability of a gain."""
        ahead = self.mean - best
        z = ahead / self.deviation
        chance: Floats = ndtr(z)
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        gain: Floats = ahead * chance + self.deviation * density
        return gain, chance


def _fit(effect: float, inside: Floats, across: Floats, itself: int, values: Floats) -> _Fit:
    """Fit measured values.

    Args:
        effect: standard deviation of the effect of one axis's value.
        inside: values shared by measured cases, [measured, measured].
        across: values shared with candidates, [candidates, measured].
        itself: values that a case shares with itself.
        values: the measured ones, less their mean.
    """
    noise = NOISE**2 * np.eye(len(values))
    factor = cho_factor(_covariance(inside, effect) + noise, lower=True)
    solved = cho_solve(factor, values)
    shared = _covariance(across, effect)
    known = np.einsum("ij,ji->i", shared, cho_solve(factor, shared.T))
    left = np.maximum(_covariance(np.array(float(itself)), effect) - known, NOISE**2 / 100)
    likelihood = -float(values @ solved) / 2 - float(np.log(np.diag(factor[0])).sum())
    return _Fit(likelihood, shared @ solved, np.sqrt(left))


def _covariance(shared: Floats, effect: float) -> Floats:
    """Return the covariance of cases that share so many values."""
    pairs = shared * (shared - 1) / 2
    total: Floats = LEVEL**2 + effect**2 * shared + PAIR**2 * pairs
    return total
