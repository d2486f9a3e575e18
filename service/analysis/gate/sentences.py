"""States what a gate says to people: one verdict and one sentence for each case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Direction
from service.analysis.gate.futility import Reach
from service.analysis.gate.metrics import fails, holds, loosening
from service.analysis.gate.pairs import CYCLES, CaseRecord, Trouble
from service.analysis.statement import Statement
from service.schemas.gate import CaseVerdict, MetricFinding, Side
from service.schemas.policy import Limit, Rule, Trade

CLOCK_TOLD = 0.001
"""Difference of the clocks from which a sentence says that it was taken out."""


def of_case(
    verdict: CaseVerdict,
    limit: Limit,
    rule: Rule,
    metrics: Mapping[str, MetricFinding],
    record: CaseRecord,
    reach: Reach | None = None,
) -> Statement:
    """One sentence about a case that can be compared, or may yet be.

    ``limit`` is the one of ``rule`` that the verdict is to be explained by. ``reach`` is what
    more pairs would decide, where they would not decide that one.
    """
    finding = metrics.get(limit.metric)
    if finding is None:
        pairs = len(record.whole)
        return Statement.of("too_few_pairs", pairs=pairs, accidents=tuple(_accidents(record)))
    return Statement.of(
        "case",
        metric=finding.metric,
        changed=changed(finding),
        rest=tuple(_rest(verdict, limit, rule, finding, metrics, reach)),
        accidents=tuple(_accidents(record)),
    )


def changed(metric: MetricFinding) -> Statement:
    """A change as measured, with its interval, such as ``-2.1 % (-2.4 % to -1.8 %)``."""
    kind = "changed" if metric.direction is Direction.HIGHER else "changed_inversely"
    return Statement.of(kind, by=metric.change, low=metric.low, high=metric.high)


def _rest(
    verdict: CaseVerdict,
    limit: Limit,
    rule: Rule,
    finding: MetricFinding,
    metrics: Mapping[str, MetricFinding],
    reach: Reach | None,
) -> Iterator[Statement]:
    """Yield what the change means, and why the verdict is not another."""
    if finding.clock is not None and abs(finding.clock) >= CLOCK_TOLD:
        yield Statement.of("at_one_clock", clock=finding.clock)
    if reach is None:
        yield from _meaning(verdict, limit, finding)
    else:
        yield Statement.of("futile", noise=reach.noise, allowed=limit.allowed, reach=reach.limit)
    if verdict is CaseVerdict.MISSING:
        yield _untold(limit, rule, metrics)
    if verdict is CaseVerdict.UNCLEAR:
        for trade in loosening(limit, rule.trades):
            yield from _of_trade(trade, metrics)
    explained = metric(finding.metric)
    # Cycles are counted over the same steps, which have the loader in them.
    has_cycles = explained.is_speed and explained.with_loader and finding.clock is None
    if has_cycles and verdict in (CaseVerdict.WORSE, CaseVerdict.BETTER) and CYCLES in metrics:
        yield _cycles(finding, metrics[CYCLES])
    if verdict is CaseVerdict.ALLOWED:
        yield from _allowance(limit, rule, finding, metrics)


def _meaning(verdict: CaseVerdict, limit: Limit, finding: MetricFinding) -> Iterator[Statement]:
    if not finding.consistent:
        yield Statement.of("pairs_disagree")
    elif verdict is CaseVerdict.SAME:
        yield Statement.of("surely_within", allowed=limit.allowed)
    elif verdict is CaseVerdict.NOT_WORSE:
        yield Statement.of("surely_no_worse", allowed=limit.allowed)
    elif verdict is CaseVerdict.UNCLEAR:
        yield _unclear(limit, finding)


def _unclear(limit: Limit, finding: MetricFinding) -> Statement:
    if finding.strict_high < -limit.max_regression:
        return Statement.of("surely_worse")  # and a trade may allow it
    if finding.high < 0:
        return Statement.of("likely_worse")
    return Statement.of("too_wide", allowed=limit.allowed)


def _cycles(finding: MetricFinding, cycles: MetricFinding) -> Statement:
    """Say whether the clock or the code explains a change in time.

    The clock alone does where the cycles may be the same, and surely changed by less than half as
    much as the time: whatever a limit allows, cycles that rose are the code's.
    """
    reach = max(-cycles.low, cycles.high)
    if cycles.consistent and cycles.low <= 0 <= cycles.high and reach < abs(finding.change) / 2:
        # Fewer cycles are better, so their change is signed the other way round.
        return Statement.of(
            "clock_slower" if finding.change < 0 else "clock_faster", cycles=-cycles.change
        )
    return Statement.of("cycles", changed=changed(cycles))


def _untold(limit: Limit, rule: Rule, metrics: Mapping[str, MetricFinding]) -> Statement:
    lacking = [
        _gain(trade, None)
        for trade in loosening(limit, rule.trades)
        if trade.if_metric not in metrics
    ]
    return Statement.of("allowed_only_if", gains=tuple(lacking))


def _of_trade(trade: Trade, metrics: Mapping[str, MetricFinding]) -> Iterator[Statement]:
    """Say what is open about a trade that may still make a case pass."""
    if fails(trade, metrics) or metrics[trade.metric].strict_high < -trade.max_regression:
        return
    other = metrics.get(trade.if_metric)
    gain = _gain(trade, other)
    if other is None:
        yield Statement.of("trade_unmeasured", gain=gain)
    elif holds(trade, metrics):
        by, allowed = changed(other), trade.max_regression
        yield Statement.of("trade_allows", metric=other.metric, changed=by, allowed=allowed)
    elif not other.consistent:
        yield Statement.of("trade_disagrees", gain=gain)
    else:
        yield Statement.of("trade_open", gain=gain, changed=changed(other))


def _gain(trade: Trade, other: MetricFinding | None) -> Statement:
    kind = "gain"
    if other is not None:
        kind = "gain_rose" if other.direction is Direction.HIGHER else "gain_fell"
    return Statement.of(kind, metric=trade.if_metric, by=trade.if_better)


def _allowance(
    limit: Limit, rule: Rule, finding: MetricFinding, metrics: Mapping[str, MetricFinding]
) -> Iterator[Statement]:
    """Say why a change that is surely for the worse may pass: its limit, or else a gain."""
    if finding.strict_high >= -limit.max_regression:
        yield Statement.of("within_limit", allowed=limit.allowed)
        return
    others = [metrics[trade.if_metric] for trade in rule.trades if trade.if_metric in metrics]
    gains = tuple(
        Statement.of("metric_changed", metric=other.metric, changed=changed(other))
        for other in others
        if other.low > 0
    )
    if gains:
        yield Statement.of("allowed_for", gains=gains)


def _accidents(record: CaseRecord) -> Iterator[Statement]:
    """Name what was measured in another way than asked, or counts for nothing."""
    if any(process.alone for side in Side for process in record.side(side)):
        yield Statement.of("one_after_the_other")
    if record.disturbed:
        yield Statement.of("pairs_left_out", pairs=record.disturbed, flags=disturbances(record))
    for side in Side:
        for process in record.side(side):
            if process.trouble not in (None, Trouble.DISTURBED):
                yield Statement.of("gave_nothing", side=side.value, reason=process.reason)


def disturbances(record: CaseRecord) -> str:
    """The flags of each side's disturbed processes, such as ``baseline: throttled``."""
    parts = []
    for side in Side:
        reasons = (p.reason for p in record.side(side) if p.trouble is Trouble.DISTURBED)
        names = dict.fromkeys(name for reason in reasons for name in reason.split(", "))
        if names:
            parts.append(f"{side.value}: {', '.join(names)}")
    return "; ".join(parts)
