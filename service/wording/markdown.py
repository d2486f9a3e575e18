"""Reports and comparisons as Markdown, for a pull request or a log."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.contracts import Case
from service.schemas.reports import Advice, Effects, Report, Row, Summary, Term
from service.schemas.series import Ratio, RevisionChange, SeriesPoint
from service.wording import formats
from service.wording.markup import escape, table


def report(told: Report) -> str:
    """The results table of a submission, then the comparison if one was asked for."""
    title = f"## {escape(told.suite or 'Cases')} at {escape(told.revision)}"
    head = ("case", "throughput", "speed-up", "limited by", "parity", "MFU", "status")
    parts = [title, table(head, (_row(row) for row in told.rows))]
    costs = [row for row in told.rows if row.compile_cost is not None]
    if costs:
        parts.append("\n".join(f"- {_case(row.case)}: {_cost(row)}" for row in costs))
    parts += [advice(each) for each in told.advice]
    if not told.finished:
        parts.append("Not finished: some cases are still to be measured.")
    parts += [effects(each) for each in told.effects]
    if told.against is not None:
        parts.append(changes(told.changes, told.against, told.revision))
    return "\n\n".join(parts) + "\n"


def advice(found: Advice) -> str:
    """Write the suggestions for a case, one line each."""
    lines = [f"- {escape(one.sentence)}" for one in found.suggestions]
    return "\n".join([f"Worth a try at {_case(found.case)}:", "", *lines])


def effects(found: Effects) -> str:
    """Write the effect of each factor of a design on throughput, and the limits of the estimate."""
    parts = [f"### Effects: {escape(found.workload)}"]
    if found.missing:
        parts.append(escape(formats.not_estimated(found.missing, found.runs)))
    else:
        head = ("factor", "compares", "effect", "95 % margin", "")
        parts.append(table(head, (_term(term) for term in found.terms)))
    return "\n\n".join([*parts, escape(" ".join(found.limits))])


def _term(term: Term) -> tuple[str, ...]:
    said = "" if term.clear else "not more than noise"
    margin = f"{formats.times(term.low)} to {formats.times(term.high)}"
    return escape(term.name), escape(term.meaning), formats.times(term.ratio), margin, said


def changes(found: Sequence[RevisionChange], baseline: str, contender: str) -> str:
    """A comparison of two revisions; a change of more than zero is better."""
    title = f"### {escape(contender)} against {escape(baseline)}"
    if not found:
        return f"{title}\n\n{formats.NOTHING_TO_COMPARE}"
    head = ("case", "baseline", "contender", "change", "95 % interval", "verdict")
    several = len({each.project for each in found}) > 1
    told = (_change(each, several=several) for each in found)
    return f"{title}\n\n{table(head, told)}"


def _row(row: Row) -> tuple[str, ...]:
    status = row.status or row.state
    reason = f": {escape(row.reason)}" if row.reason else ""
    flags = f" ({escape(', '.join(row.flags))})" if row.flags else ""
    lost = ", counts for nothing" if row.disturbed else ""
    return (
        _case(row.case),
        _summary(row.throughput, row.unit),
        _ratio(row.speedup),
        escape(row.bottleneck or ""),
        escape(row.parity or ""),
        "" if row.mfu is None else formats.share(row.mfu),
        f"{escape(status)}{flags}{lost}{reason}",
    )


def _cost(row: Row) -> str:
    return escape(row.compile_cost.sentence) if row.compile_cost else ""


def _change(change: RevisionChange, *, several: bool) -> tuple[str, ...]:
    note = f" ({change.note})" if change.note else ""
    interval = ""
    if change.change_low is not None and change.change_high is not None:
        interval = f"{change.change_low:+.1%} to {change.change_high:+.1%}"
    return (
        f"{_case(change.case)}{_project(change) if several else ''}",
        _value(change.baseline, change.unit),
        _value(change.contender, change.unit),
        "" if change.change is None else f"{change.change:+.1%}",
        interval,
        f"{change.verdict.value}{note}",
    )


def _project(change: RevisionChange) -> str:
    return f" of the project {escape(change.project)}" if change.project else ""


def _value(point: SeriesPoint | None, unit: str) -> str:
    return "" if point is None else _measured(point.value, point.low, point.high, unit)


def _summary(summary: Summary | None, unit: str) -> str:
    return "" if summary is None else _measured(summary.value, summary.low, summary.high, unit)


def _measured(value: float, low: float | None, high: float | None, unit: str) -> str:
    interval = formats.half_width(value, low, high, unit)
    return escape(f"{formats.quantity(value, unit)} {interval}".strip())


def _ratio(speedup: Ratio | None) -> str:
    return "" if speedup is None else formats.times(speedup.value)


def _case(case: Case) -> str:
    return f"`{case.key}`"
