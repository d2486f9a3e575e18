"""Writes what a gate says to people: one verdict and one sentence for each case."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Direction
from service import formats
from service.analysis.gate import tradeoffs
from service.analysis.gate.metrics import MetricFinding
from service.analysis.gate.pairs import CYCLES, CaseRecord, Side, Trouble
from service.analysis.gate.policy import Limit, Rule, Trade


class CaseVerdict(StrEnum):
    """The verdict on one case."""

    WORSE = "worse"
    """Surely worse than its limits allow: a regression."""
    BROKEN = "broken"
    """The contender cannot do what the baseline does: a regression."""
    PARITY = "parity"
    """The contender computes something else: a regression, however fast."""
    BETTER = "better"
    SAME = "same"
    ALLOWED = "allowed"
    """Surely worse, and its limit or a trade allows it."""
    NOT_WORSE = "not_worse"
    """Surely within what is allowed; whether equal or better is open."""
    UNSUPPORTED = "unsupported"
    """Neither revision supports it on this device; it neither passes nor fails."""
    UNCLEAR = "unclear"
    MISSING = "missing"
    FAILED = "failed"
    """It failed on the baseline, or on both sides, or only once."""
    FOREIGN = "foreign"
    """The two sides were not measured on the same device and data."""
    SAME_CODE = "same_code"
    """Both revisions ran the same code, or nobody knows which code ran."""
    DISTURBED = "disturbed"
    """Too few pairs were measured on an undisturbed device."""


REGRESSIONS = frozenset({CaseVerdict.WORSE, CaseVerdict.BROKEN, CaseVerdict.PARITY})
GOOD = frozenset({CaseVerdict.BETTER, CaseVerdict.SAME, CaseVerdict.ALLOWED, CaseVerdict.NOT_WORSE})


def of_case(
    verdict: CaseVerdict,
    limit: Limit,
    rule: Rule,
    found: Mapping[str, MetricFinding],
    record: CaseRecord,
) -> str:
    """One sentence about a case that can be compared, or may yet be.

    ``limit`` is the one of ``rule`` that the verdict is to be explained by.
    """
    own = found.get(limit.metric)
    if own is None:
        pairs = formats.counted(len(record.whole), "pair")
        return _with_accidents(f"{pairs}, too few to judge.", record)
    sentence = f"{own.metric} {changed(own)}{_meaning(verdict, limit, own)}"
    if verdict is CaseVerdict.MISSING:
        sentence += _untold(limit, rule, found)
    if verdict is CaseVerdict.UNCLEAR:
        sentence += "".join(
            _of_trade(each, found) for each in tradeoffs.loosening(limit, rule.trades)
        )
    explained = metric(own.metric)
    # Cycles are counted over the same steps, which have the loader in them.
    has_cycles = explained.is_speed and explained.with_loader
    if has_cycles and verdict in (CaseVerdict.WORSE, CaseVerdict.BETTER):
        sentence += _cycles(own, found.get(CYCLES))
    if verdict is CaseVerdict.ALLOWED:
        sentence += _allowance(limit, rule, own, found)
    # The no-break spaces of formatted numbers are for pages; this goes into JSON and logs too.
    return _with_accidents(f"{sentence}.".replace(formats.NBSP, " "), record)


def changed(found: MetricFinding) -> str:
    """A change as measured, with its interval, such as ``-2.1 % (-2.4 % to -1.8 %)``."""
    change, between = found.shown
    return f"{change} ({between})"


def _meaning(verdict: CaseVerdict, limit: Limit, own: MetricFinding) -> str:
    if not own.consistent:
        return ", but earlier and later pairs disagree: something else changed on this machine"
    allowed = formats.share(limit.allowed)
    match verdict:
        case CaseVerdict.SAME:
            return f", surely within {allowed}"
        case CaseVerdict.NOT_WORSE:
            return f", surely no worse than {allowed}; whether it got better is open"
        case CaseVerdict.UNCLEAR:
            return _unclear(limit, own)
    return ""


def _unclear(limit: Limit, own: MetricFinding) -> str:
    if own.strict_high < -limit.max_regression:
        return ", surely worse"  # and a trade may allow it
    if own.high < 0:
        return ", likely worse, but not sure enough over all cases and looks"
    return f", too wide an interval for a limit of {formats.share(limit.allowed)}"


def _cycles(own: MetricFinding, cycles: MetricFinding | None) -> str:
    """Say whether the clock or the code explains a change in time.

    The clock alone does where the cycles may be the same, and surely changed by less than half as
    much as the time: whatever a limit allows, cycles that rose are the code's.
    """
    if cycles is None:
        return ""
    reach = max(-cycles.low, cycles.high)
    if cycles.consistent and cycles.low <= 0 <= cycles.high and reach < abs(own.change) / 2:
        clock = "slower" if own.change < 0 else "faster"
        return (
            f"; in clock cycles {cycles.shown[0]}, so the device's clock was {clock}, not the code"
        )
    return f"; in clock cycles {changed(cycles)}"


def _untold(limit: Limit, rule: Rule, found: Mapping[str, MetricFinding]) -> str:
    wanted = [
        _gain(trade, None)
        for trade in tradeoffs.loosening(limit, rule.trades)
        if trade.if_metric not in found
    ]
    return f", allowed only if {' or '.join(wanted)}: not every process has one above zero"


def _of_trade(trade: Trade, found: Mapping[str, MetricFinding]) -> str:
    """Say what is open about a trade that may still make a case pass."""
    if tradeoffs.fails(trade, found) or found[trade.metric].strict_high < -trade.max_regression:
        return ""
    other = found.get(trade.if_metric)
    asked = f"; whether {_gain(trade, other)} is open"
    if other is None:
        return f"{asked}: not every process has one above zero"
    if tradeoffs.holds(trade, found):
        allowed = formats.share(trade.max_regression)
        return f"; {other.metric} {changed(other)} allows {allowed}: whether that is enough is open"
    if not other.consistent:
        return f"{asked}: its earlier and later pairs disagree"
    return f"{asked}: {changed(other)}"


def _gain(trade: Trade, other: MetricFinding | None) -> str:
    way = "got better"
    if other is not None:
        way = "rose" if other.direction is Direction.HIGHER else "fell"
    return f"{trade.if_metric} {way} by {formats.share(trade.if_better)}"


def _allowance(
    limit: Limit, rule: Rule, own: MetricFinding, found: Mapping[str, MetricFinding]
) -> str:
    """Say why a change that is surely for the worse may pass: its limit, or else a gain."""
    if own.strict_high >= -limit.max_regression:
        allowed = formats.share(limit.allowed)
        return f", surely worse, and surely by less than the {allowed} that is allowed"
    return _bargain(rule, found)


def _bargain(rule: Rule, found: Mapping[str, MetricFinding]) -> str:
    others = [found[trade.if_metric] for trade in rule.trades if trade.if_metric in found]
    gains = [f"{other.metric} {changed(other)}" for other in others if other.low > 0]
    return f", allowed for {' and '.join(gains)}" if gains else ""


def _with_accidents(sentence: str, record: CaseRecord) -> str:
    """Name the processes that count for nothing and were measured again."""
    sentence += _disturbed(record)
    for side in Side:
        for each in record.side(side):
            if each.trouble not in (None, Trouble.DISTURBED):
                why = f": {each.reason.rstrip('.')}" if each.reason else ""
                sentence += f" One process of the {side.value} gave nothing{why}."
    return sentence


def _disturbed(record: CaseRecord) -> str:
    if not record.disturbed:
        return ""
    pairs = formats.counted(record.disturbed, "pair")
    return f" {pairs} left out, measured on a disturbed device ({disturbances(record)})."


def disturbances(record: CaseRecord) -> str:
    """The flags of each side's disturbed processes, such as ``baseline: throttled``."""
    parts = []
    for side in Side:
        disturbed = [
            process for process in record.side(side) if process.trouble is Trouble.DISTURBED
        ]
        names = dict.fromkeys(name for process in disturbed for name in process.reason.split(", "))
        if names:
            parts.append(f"{side.value}: {', '.join(names)}")
    return "; ".join(parts)
