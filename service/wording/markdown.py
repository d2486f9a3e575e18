"""Reports and comparisons as Markdown, for a pull request or a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from benchmarks.contracts import Case
from service.schemas import reports as schemas
from service.schemas.series import Ratio, RevisionChange, SeriesPoint
from service.wording import formats

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table; the cells are escaped already."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def escape(text: str) -> str:
    """Escape what Markdown would read as markup: the text is a stranger's."""
    return _SPECIAL.sub(r"\\\1", text)


def report(document: schemas.Report) -> str:
    """The results table of a submission, then the comparison if one was asked for."""
    title = f"## {escape(document.suite or 'Cases')} at {escape(document.revision)}"
    head = ("case", "throughput", "speed-up", "limited by", "parity", "MFU", "status")
    parts = [title, table(head, (_row(row) for row in document.rows))]
    costs = [
        f"- {_case(row.case)}: {escape(row.compile_cost.sentence)}"
        for row in document.rows
        if row.compile_cost is not None
    ]
    if costs:
        parts.append("\n".join(costs))
    parts += [advice(part) for part in document.advice]
    if not document.finished:
        parts.append("Not finished: some cases are still to be measured.")
    parts += [effects(part) for part in document.effects]
    if document.against is not None:
        parts.append(changes(document.changes, document.against, document.revision))
    return "\n\n".join(parts) + "\n"


def advice(suggested: schemas.Advice) -> str:
    """Write the suggestions for a case, one line each."""
    lines = [f"- {escape(one.sentence)}" for one in suggested.suggestions]
    return "\n".join([f"Worth a try at {_case(suggested.case)}:", "", *lines])


def effects(estimated: schemas.Effects) -> str:
    """Write the effect of each factor of a design on throughput, and the limits of the estimate."""
    parts = [f"### Effects: {escape(estimated.workload)}"]
    if estimated.missing:
        parts.append(escape(formats.not_estimated(estimated.missing, estimated.runs)))
    else:
        head = ("factor", "compares", "effect", "95 % margin", "")
        parts.append(table(head, (_term(term) for term in estimated.terms)))
    return "\n\n".join([*parts, escape(" ".join(estimated.limits))])


def _term(term: schemas.Term) -> tuple[str, ...]:
    said = "" if term.clear else "not more than noise"
    margin = f"{formats.times(term.low)} to {formats.times(term.high)}"
    return escape(term.name), escape(term.meaning), formats.times(term.ratio), margin, said


def changes(compared: Sequence[RevisionChange], baseline: str, contender: str) -> str:
    """A comparison of two revisions; a change of more than zero is better."""
    title = f"### {escape(contender)} against {escape(baseline)}"
    if not compared:
        return f"{title}\n\n{formats.NOTHING_TO_COMPARE}"
    head = ("case", "baseline", "contender", "change", "95 % interval", "verdict")
    several = len({change.project for change in compared}) > 1
    lines = (_change(change, several=several) for change in compared)
    return f"{title}\n\n{table(head, lines)}"


def _row(row: schemas.Row) -> tuple[str, ...]:
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


def _change(change: RevisionChange, *, several: bool) -> tuple[str, ...]:
    note = f" ({change.note})" if change.note else ""
    interval = ""
    if change.change_low is not None and change.change_high is not None:
        without = f", without {change.left_out}" if change.left_out else ""
        interval = f"{change.change_low:+.1%} to {change.change_high:+.1%}{without}"
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


def _summary(summary: schemas.Summary | None, unit: str) -> str:
    return "" if summary is None else _measured(summary.value, summary.low, summary.high, unit)


def _measured(value: float, low: float | None, high: float | None, unit: str) -> str:
    interval = formats.half_width(value, low, high, unit)
    return escape(f"{formats.quantity(value, unit)} {interval}".strip())


def _ratio(speedup: Ratio | None) -> str:
    return "" if speedup is None else formats.times(speedup.value)


def _case(case: Case) -> str:
    return f"`{case.key}`"
