"""Computes the change of each metric of one case, from its pairs, and whether a trade holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from benchmarks.contracts import Direction
from service.analysis.gate import one_clock
from service.analysis.gate.noise import KnownNoise
from service.analysis.gate.pairs import Measured, Metric, Pair
from service.analysis.gate.sequential import Estimate, estimate
from service.schemas.gate import MetricFinding
from service.schemas.policy import Limit, Policy, Trade

_TIMES = {"throughput": -1.0, "step_time": 1.0}
"""Metrics that say how long a step takes, and the sign of their logarithm in that of the time."""
NOTHING = KnownNoise()
WIDEST = math.log(1e6)
"""An interval that reaches further than a millionfold says no more than this."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The probabilities that intervals may miss, and the permitted numbers of pairs."""

    strict: float
    plain: float
    min_pairs: int
    max_pairs: int

    @classmethod
    def of(cls, policy: Policy, case_keys: Iterable[str]) -> Levels:
        """Split the gate's false alarms evenly over everything that is tested (Bonferroni).

        ``false_pass`` is not split: a gate passes only if every case does, so it passes falsely
        with no more than the probability that one case does (intersection-union).
        """
        rules = [policy.rule_of(key) for key in case_keys]
        tested = sum(len(rule.limits) + len(rule.trades) for rule in rules)
        strict = policy.false_alarm / max(tested, 1)
        return cls(strict, policy.false_pass, policy.min_pairs, policy.max_pairs)


def findings(
    pairs: list[Pair], levels: Levels, known: KnownNoise = NOTHING, *, last: bool
) -> dict[str, MetricFinding]:
    """Every metric that all pairs have on both sides, above zero."""
    rows = (_finding(name, pairs, levels, known, last=last) for name in _common(pairs))
    return {row.metric: row for row in rows if row is not None}


def _common(pairs: list[Pair]) -> list[str]:
    sides = _sides(pairs)
    first = sides[0].metrics if sides else {}
    return [
        name
        for name, metric in first.items()
        if all(_alike(side.metrics.get(name), metric) for side in sides)
    ]


def _alike(one: Metric | None, other: Metric) -> bool:
    if one is None or one.value <= 0:
        return False
    return (one.unit, one.direction) == (other.unit, other.direction)


def worse_by(pairs: Sequence[Pair], metric: str) -> list[float]:
    """Log ratio of each pair in one metric, at one clock where that can be told; + is worse.

    The pairs are whole, of one case on one device. Whether the clock surely differs is asked of all
    of them together.
    """
    levels = Levels.of(Policy(), [""])
    told = _at_one_clock(metric, list(pairs), levels, last=False)
    ratios = _log_ratios(pairs, metric) if told is None else told.differences
    better = any(_metric(pair, 0, metric).direction is Direction.HIGHER for pair in pairs)
    return [-ratio if better else ratio for ratio in ratios]


def _finding(
    name: str, pairs: list[Pair], levels: Levels, known: KnownNoise, *, last: bool
) -> MetricFinding | None:
    before, after = _logs(pairs, 0, name), _logs(pairs, 1, name)
    measured = _log_ratios(pairs, name)
    at_one = _at_one_clock(name, pairs, levels, last=last)
    strict, plain = (
        _estimate(measured, at_one, levels, error, last=last, known=known, name=name)
        for error in (levels.strict, levels.plain)
    )
    if strict is None or plain is None:
        return None
    metric = _metric(pairs[0], 0, name)
    change, low, high = _changes(plain, metric.direction)
    _, strict_low, strict_high = _changes(strict, metric.direction)
    return MetricFinding(
        metric=name,
        unit=metric.unit,
        direction=metric.direction,
        baseline=math.exp(math.fsum(before) / len(before)),
        contender=math.exp(math.fsum(after) / len(after)),
        pairs=len(pairs),
        change=change,
        low=low,
        high=high,
        strict_low=strict_low,
        strict_high=strict_high,
        consistent=strict.consistent and plain.consistent,
        clock=math.expm1(fmean(at_one.clocks)) if at_one is not None else None,
        noise=stdev(measured if at_one is None else at_one.differences),
        noise_as_measured=None if at_one is None else stdev(measured),
    )


def _at_one_clock(
    name: str, pairs: list[Pair], levels: Levels, *, last: bool
) -> one_clock.AtOneClock | None:
    """Compute the pairs' differences at one clock.

    None for metrics that are no times, and where the clock surely differs.
    """
    timed = name in _TIMES and all("step_time" in side.metrics for side in _sides(pairs))
    told = one_clock.at_one_clock(pairs) if timed else None
    if told is None:
        return None
    clock = _estimate(told.clocks, None, levels, levels.strict, last=last)
    if clock is None or (clock.consistent and not clock.low <= 0 <= clock.high):
        return None
    sign = _TIMES[name]
    # Throughput also changes with the items of a step; they stay in its difference.
    beside = [
        own - sign * time
        for own, time in zip(_log_ratios(pairs, name), _log_ratios(pairs, "step_time"), strict=True)
    ]
    at_one = [more + sign * one for more, one in zip(beside, told.differences, strict=True)]
    return replace(told, differences=at_one)


def _estimate(
    measured: Sequence[float],
    at_one: one_clock.AtOneClock | None,
    levels: Levels,
    error: float,
    *,
    last: bool,
    known: KnownNoise = NOTHING,
    name: str = "",
) -> Estimate | None:
    measured_prior, prior = (
        known.prior(name, at_one_clock=clock) for clock in (False, at_one is not None)
    )
    found = estimate(
        measured if at_one is None else at_one.differences,
        error=error,
        min_pairs=levels.min_pairs,
        max_pairs=levels.max_pairs,
        last=last,
        prior=prior,
    )
    if found is None or at_one is None:
        return found
    return one_clock.also_as_measured(found, measured, measured_prior)


def _log_ratios(pairs: Sequence[Pair], name: str) -> list[float]:
    both = zip(_logs(pairs, 0, name), _logs(pairs, 1, name), strict=True)
    return [new - old for old, new in both]


def _sides(pairs: Sequence[Pair]) -> list[Measured]:
    return [side for pair in pairs for side in pair.sides if side is not None]


def _logs(pairs: Sequence[Pair], side: int, name: str) -> list[float]:
    return [math.log(_metric(pair, side, name).value) for pair in pairs]


def _metric(pair: Pair, side: int, name: str) -> Metric:
    measured = pair.sides[side]
    assert measured is not None
    return measured.metrics[name]


def _changes(estimate: Estimate, direction: Direction) -> tuple[float, float, float]:
    logs = (estimate.log_ratio, estimate.low, estimate.high)
    change, low, high = (math.expm1(min(max(log, -WIDEST), WIDEST)) for log in logs)
    return (change, low, high) if direction is Direction.HIGHER else (-change, -high, -low)


def loosening(limit: Limit, trades: Sequence[Trade]) -> list[Trade]:
    """The trades under which more than ``limit`` is allowed."""
    return [trade for trade in trades if trade.metric == limit.metric]


def holds(trade: Trade, findings: Mapping[str, MetricFinding]) -> bool:
    """Return True if the other metric surely gained as much as the trade asks."""
    other = findings.get(trade.if_metric)
    return other is not None and other.consistent and other.low >= trade.if_better


def fails(trade: Trade, findings: Mapping[str, MetricFinding]) -> bool:
    """Return True if the other metric surely gained less; False if it was not measured."""
    other = findings.get(trade.if_metric)
    return other is not None and other.consistent and other.strict_high < trade.if_better
