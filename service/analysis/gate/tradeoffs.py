"""Tells whether a metric gained what a trade asks for a slowdown: surely, surely not, or open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.schemas.gate import MetricFinding
from service.schemas.policy import Limit, Trade


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
