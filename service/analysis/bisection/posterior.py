"""Computes how probable each commit is to be the culprit, and that there is none.

The model: if commit k is the culprit, a probe of c beside b shows the effect where b < k <= c, and
nothing elsewhere. Effect and noise are free within ranges. Student's t with four degrees of freedom
takes an odd process for what it is (after Henderson et al., ICST 2023, "no culprit" is a hypothesis
of its own, and after Waeber, Frazier, Henderson, 2013, the posterior median is probed).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from service.analysis.gate.noise import FLOOR, PairNoise

Values = npt.NDArray[np.float64]
FREEDOM = 4.0
SCALE = 0.8
"""Scale of Student's t for noise of a standard deviation of one; the tails hold the rest."""
NO_CULPRIT = 0.4
"""Probability beforehand that no commit is the culprit: about 40 % of the ranges in Henderson et
al. had none."""
SHARES = np.geomspace(0.35, 1.8, 16)
"""Effects that are possible, in those that a finding tells: a surprise looks larger than it is."""
EFFECTS = np.geomspace(0.004, 1.2, 64)
"""Effects that are possible where nobody tells one."""
NOISES = np.geomspace(0.6, 2.6, 7)
"""Noises that are possible, in those that are known from earlier pairs."""
KNOWN = 0.35
"""Standard deviation of the logarithm of today's noise by earlier noise."""
UNKNOWN_NOISES = np.geomspace(3e-4, 0.2, 16)
"""Noises of a pair that are possible where nothing is known."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One pair: a commit beside an earlier one. Places count from the good end, which is 0."""

    commit: int
    beside: int
    difference: float | None = None
    """Log ratio of the commit to the earlier one, worse is positive; None: nothing was measured."""
    unusable: int | None = None
    """The place that cannot be measured, such as a commit that does not build."""


@dataclass(frozen=True, slots=True)
class Search:
    """The input of a judgement: commits, probes so far, expected effect and noise."""

    commits: int
    """Commits after the good end; the last is the bad end."""
    probes: tuple[Probe, ...] = ()
    expected: float | None = None
    """Log ratio that a finding tells, above zero; None if nobody tells one."""
    noise: PairNoise | None = None
    """Noise of a pair, as earlier pairs told it."""
    at_old_level: bool = False
    """The bad end is today as fast as the finding's good level was."""
    most_processes: int = 80

    @property
    def measured(self) -> tuple[Probe, ...]:
        """The probes that gave a difference."""
        return tuple(probe for probe in self.probes if probe.difference is not None)

    @property
    def usable(self) -> list[int]:
        """The places that can be measured, or were not tried: what was measured once can be."""
        seen = {place for probe in self.measured for place in (probe.commit, probe.beside)}
        broken = {probe.unusable for probe in self.probes} - seen
        return [place for place in range(self.commits + 1) if place not in broken]

    @property
    def processes(self) -> int:
        """The processes that its probes cost: two each, none where a build failed."""
        return 2 * sum(probe.unusable is None for probe in self.probes)

    def beside(self, commit: int, beside: int) -> list[float]:
        """The differences of one commit beside one other."""
        places = commit, beside
        return [
            probe.difference
            for probe in self.probes
            if probe.difference is not None and (probe.commit, probe.beside) == places
        ]


@dataclass(frozen=True, slots=True)
class Posterior:
    """Probabilities after the probes so far; together they are one."""

    environment: float
    """That no commit is the culprit."""
    ends: tuple[int, ...]
    """Usable places from the good end to the bad one; between two lies one group of commits."""
    groups: tuple[float, ...]
    """Probability of each group to hold the culprit."""

    @property
    def leading(self) -> int:
        """The most probable group."""
        return int(np.argmax(self.groups))

    @property
    def commits(self) -> tuple[float, ...]:
        """Probability of each commit after the good end, in order; a group divides evenly."""
        return tuple(
            probability / (after - before)
            for probability, (before, after) in zip(self.groups, pairwise(self.ends), strict=True)
            for _ in range(after - before)
        )


def posterior_of(search: Search) -> Posterior:
    """Give the probability of each commit; both ends must be usable."""
    ends = tuple(search.usable)
    sizes = np.diff(ends)
    effects, noises, weights = _ranges(search)
    probes = search.measured
    same = _likelihoods(probes, np.zeros(1), noises)[:, 0]  # probe x noise
    differ = _likelihoods(probes, effects, noises)  # probe x effect x noise
    seen = np.array([_seen_by(probe, ends) for probe in probes], float).reshape(-1, len(sizes))
    none = _log_sum(same.sum(0) + weights)
    gain = np.tensordot(seen.T, differ - same[:, None, :], 1)  # group x effect x noise
    logs = gain + same.sum(0) + weights - math.log(len(effects))
    of_groups = np.array([_log_sum(group) for group in logs]) + np.log(sizes / search.commits)
    every = np.append(of_groups + math.log(1 - NO_CULPRIT), none + math.log(NO_CULPRIT))
    shares = np.exp(every - _log_sum(every))
    return Posterior(float(shares[-1]), ends, tuple(float(share) for share in shares[:-1]))


def _ranges(search: Search) -> tuple[Values, Values, Values]:
    """Effects, noises, and the log of how probable each noise is beforehand."""
    effects = EFFECTS if search.expected is None else SHARES * search.expected
    if search.noise is None:
        return effects, UNKNOWN_NOISES, np.full(len(UNKNOWN_NOISES), -math.log(len(UNKNOWN_NOISES)))
    weights = -0.5 * (np.log(NOISES) / KNOWN) ** 2
    noises = NOISES * max(search.noise.deviation, FLOOR)
    return effects, noises, weights - _log_sum(weights)


def _likelihoods(probes: Sequence[Probe], effects: Values, noises: Values) -> Values:
    """Log likelihood of each probe if it shows each effect, for each noise."""
    seen = np.array([probe.difference for probe in probes], float)[:, None, None]
    scale = SCALE * noises[None, None, :]
    off = (seen - effects[None, :, None]) / scale
    half = (FREEDOM + 1) / 2
    found: Values = -half * np.log1p(off**2 / FREEDOM) - np.log(scale)
    return found


def _seen_by(probe: Probe, ends: Sequence[int]) -> list[bool]:
    """Say for each group whether a culprit in it would show in the probe."""
    return [probe.beside < after <= probe.commit for after in ends[1:]]


def _log_sum(logs: Values) -> float:
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()))
