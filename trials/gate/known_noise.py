"""Gates that know the noise of earlier ones, on days with another noise: ``python -m
trials.gate.known_noise`` prints how they decide.

Pairs are normal. Earlier gates told a deviation of 0.2 % with as many degrees of freedom as count;
today's is so many times as large. A gate has one case and the default policy.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.analysis.gate.forecast import settled
from service.analysis.gate.metrics import Levels
from service.analysis.gate.noise import MOST_FREEDOM, PairNoise
from service.analysis.gate.sequential import Looks, intervals
from service.schemas.policy import Policy

GATES, SEED = 20_000, 5
TOLD, SLOWER = 0.002, 0.01
TIMES = (0.5, 1.0, 1.35, 2.0, 3.0, 5.0, 20.0)
"""Noise of today over what earlier gates told."""
POLICY = Policy()
LEVELS = Levels.of(POLICY, ["one"])


@dataclass(frozen=True, slots=True)
class Decided:
    """Shares of gates that say worse, and that pass, and the mean number of pairs."""

    worse: float
    passed: float
    pairs: float


def main() -> None:
    """Print a row for each noise."""
    prior = PairNoise(TOLD, MOST_FREEDOM)
    sys.stdout.write(
        "| noise today / told | equal: called worse | pairs | 1 % slower: found | passed "
        "| pairs |\n| --- | --- | --- | --- | --- | --- |\n"
    )
    drawn = np.random.default_rng(SEED).standard_normal((GATES, POLICY.max_pairs))
    for times in TIMES:
        equal, slower = (decided(times * TOLD * drawn - by, prior) for by in (0.0, SLOWER))
        sys.stdout.write(
            f"| {times:g} | {equal.worse:.2%} | {equal.pairs:.1f} | {slower.worse:.1%} "
            f"| {slower.passed:.2%} | {slower.pairs:.1f} |\n"
        )


def decided(gates: npt.NDArray[np.float64], prior: PairNoise | None) -> Decided:
    """Decide gates; a row has the log ratios of one gate's pairs, + is better."""
    limit = POLICY.rule_of("one").limits[0]
    looks = (_looks(gates, error, prior) for error in (LEVELS.strict, LEVELS.plain))
    both = [settled(*one, limit=limit) for one in zip(*looks, strict=True)]
    done, worse = (np.array(flags) for flags in zip(*both, strict=True))
    ever = done.any(axis=0)
    first = np.where(ever, done.argmax(axis=0), len(done) - 1)
    bad = worse[first, range(len(gates))]
    return Decided(
        float(bad.mean()), float((ever & ~bad).mean()), float(POLICY.min_pairs + first.mean())
    )


def _looks(gates: npt.NDArray[np.float64], error: float, prior: PairNoise | None) -> list[Looks]:
    few = {"min_pairs": POLICY.min_pairs, "max_pairs": POLICY.max_pairs}
    return list(intervals(gates, error=error, prior=prior, **few))


if __name__ == "__main__":
    main()
