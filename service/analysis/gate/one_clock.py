"""Takes the device's clock out of the differences in time of pairs measured in turn.

A GPU at its power limit changes its clock from second to second, and two processes of the same code
settle at clocks that differ by half a percent. How step time follows the clock is estimated from
the turns within the pairs (a covariate, as in CUPED: Deng et al., 2013), and the pairs are compared
as if both sides had run at one clock.

Code that draws more power lowers the clock too, and that is the code's doing. So an answer at one
clock has to hold for the time as measured as well (`also_as_measured`), and where the clock surely
differs, only the time as measured counts. The slope is fitted to all pairs so far, so the error
over all looks is approximate here: the tests and benchmarks/results/h100 show what gates do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.diagnosis.clock_slope import FEWEST, Values, clock_slope
from benchmarks.diagnosis.paired import TRIMMED
from service.analysis.gate.noise import PairNoise
from service.analysis.gate.pairs import Pair
from service.analysis.gate.sequential import Estimate, students_half

MEASURED = 0.05
"""Probability, both sides together, with which the time as measured may disagree, at the newest
look."""


@dataclass(frozen=True, slots=True)
class AtOneClock:
    """Differences of pairs as they would be if both sides had run at one clock."""

    differences: list[float]
    """Log ratios of step times, contender to baseline, one for each pair."""
    slope: float
    """Slope of log step time on log clock, from -1 (proportional) to 0 (independent)."""
    clocks: list[float]
    """Log ratios of the pairs' clocks."""


def at_one_clock(pairs: Sequence[Pair]) -> AtOneClock | None:
    """The differences of ``pairs`` at one clock; None where their turns do not tell it."""
    turns = [_turns(pair) for pair in pairs]
    told = [one for one in turns if one is not None]
    if len(told) < max(2, len(pairs)) or sum(len(times) for times, _ in told) < FEWEST:
        return None
    slope = clock_slope(told)
    if slope == 0.0:
        return None
    adjusted = [times - slope * clock for times, clock in told]
    clocks = [_middle(clock, rest) for (_, clock), rest in zip(told, adjusted, strict=True)]
    return AtOneClock([_middle(rest, rest) for rest in adjusted], slope, clocks)


def also_as_measured(
    at_one: Estimate, measured: Sequence[float], prior: PairNoise | None = None
) -> Estimate:
    """Widen an estimate at one clock by what the differences as measured leave open."""
    values = np.asarray(measured, float)[: at_one.pairs]
    half = students_half(float(values.std(ddof=1)), len(values), MEASURED, prior)
    mean = float(values.mean())
    low, high = min(at_one.low, mean - half), max(at_one.high, mean + half)
    return replace(at_one, low=low, high=high)


def _turns(pair: Pair) -> tuple[Values, Values] | None:
    """Log ratios of step times and of clocks, turn by turn."""
    before, after = ([] if side is None else side.turns for side in pair.sides)
    if not before or len(before) != len(after):
        return None
    if not all(turn.sm_clock_hz for turn in (*before, *after)):
        return None
    old = np.log([(turn.step_s, turn.sm_clock_hz or 1.0) for turn in before])
    new = np.log([(turn.step_s, turn.sm_clock_hz or 1.0) for turn in after])
    return (new - old)[:, 0], (new - old)[:, 1]


def _middle(values: Values, by: Values) -> float:
    """Mean of ``values`` without those places at which ``by`` is largest or smallest."""
    aside = int(TRIMMED * len(values))
    return float(values[np.argsort(by)][aside : len(values) - aside].mean())
