"""Whether what a rule takes for a slowdown was gained: surely, surely not, or open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.analysis.gate.metrics import MetricFinding
from service.analysis.gate.policy import Limit, Trade


def loosening(limit: Limit, trades: Sequence[Trade]) -> list[Trade]:
    """The trades under which more than ``limit`` is allowed."""
    return [trade for trade in trades if trade.metric == limit.metric]


def holds(trade: Trade, found: Mapping[str, MetricFinding]) -> bool:
    """Whether the other metric surely gained so much."""
    other = found.get(trade.if_metric)
    return other is not None and other.consistent and other.low >= trade.if_better


def fails(trade: Trade, found: Mapping[str, MetricFinding]) -> bool:
    """Whether the other metric surely did not; of one that was not measured, nothing is sure."""
    other = found.get(trade.if_metric)
    return other is not None and other.consistent and other.strict_high < trade.if_better
