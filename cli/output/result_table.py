"""The result table of a submission: what was measured, how it compares, and what limits it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rich.text import Text

from benchmarks.contracts import JobState, ParityStatus, Status
from cli.output.console import Console, table
from service.schemas.reports import Effects, Row
from service.wording import formats

ROOMY = 100
"""Columns of a terminal from which on peak memory has room beside the rest."""
_BASIS = {
    "within_run": "within one process: another process, night or node may differ by more",
    "replicates": "between the processes of this night: another night or node may differ by more",
}
"""What an interval rests on."""
_PARITY = {"nondeterministic": "varies"}
"""Statuses of parity whose names are too long for a column."""


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the table, what its intervals rest on, and each failure with its reason."""
    further = _further(rows, wide=console.width >= ROOMY)
    right = ("throughput, 95 %", "vs fp32", *further)
    headings = ("case", *right[:2], "limited by", *further)
    drawn = table(*headings, right=right, whole=headings[1:])
    drawn.columns[0].min_width = 22
    for row in rows:
        measured = row.throughput is not None
        beside = (read(row) if measured else "" for read in further.values())
        drawn.add_row(*_cells(row, rows), *beside)
    console.print(drawn)
    for basis in dict.fromkeys(row.throughput.interval for row in rows if row.throughput):
        if basis in _BASIS:
            console.print(f"95 % interval {_BASIS[basis]}.", style="dim", highlight=False)
    _unbuildable(rows, console)
    for row in rows:
        _remark(row, console)
        _flagged(row, console)
        if row.compile_cost is not None:
            line = f"{row.case.key}: {row.compile_cost.sentence}"
            console.say(line, "dim")


def show_effects(effects: Effects, console: Console) -> None:
    """Print main effects, then interactions, and what the design cannot tell apart."""
    console.print(f"\nEffects on the throughput of {effects.workload}", style="bold")
    if effects.missing:
        console.say(formats.not_estimated(effects.missing, effects.runs), "red")
    else:
        right = ("effect", "95 % margin")
        drawn = table("factor", "compares", *right, right=right, whole=right)
        for term in effects.terms:
            margin = f"{formats.times(term.low)} to {formats.times(term.high)}"
            cells = term.name, term.meaning, formats.times(term.ratio), margin
            drawn.add_row(*cells, style="" if term.clear else "dim")
        console.print(drawn)
        noise = "Dim: not more than noise (Lenth's 95 % margin)."
        console.print(noise, style="dim", highlight=False)
    console.print(" ".join(effects.limits), style="dim", highlight=False, markup=False)


def _further(rows: Sequence[Row], *, wide: bool) -> dict[str, Callable[[Row], str | Text]]:
    """Columns that stand only where they have something to say, and memory where it has room."""
    columns: dict[str, Callable[[Row], str | Text]] = {}
    if any(row.parity is not None for row in rows):
        columns["parity"] = _parity
    if wide and any(row.mfu is not None for row in rows):
        columns["MFU"] = lambda row: formats.DASH if row.mfu is None else formats.share(row.mfu)
    if wide:
        columns["peak memory"] = _memory
    return columns


def _parity(row: Row) -> str | Text:
    style = "red" if row.parity == ParityStatus.FAIL else ""
    return Text(_PARITY.get(row.parity or "", row.parity or formats.DASH), style=style)


def _memory(row: Row) -> str:
    known = row.peak_memory_b
    return formats.DASH if known is None else formats.quantity(known, "B")


def _unbuildable(rows: Sequence[Row], console: Console) -> None:
    """Print once why a commit cannot be built, however many cases it has."""
    reasons = Counter(row.reason for row in rows if row.status == Status.UNBUILDABLE)
    for reason, count in reasons.items():
        console.say(f"{formats.counted(count, 'case')}: {reason}", "red")


def _remark(row: Row, console: Console) -> None:
    """Print why a case failed, or was not compared."""
    if row.status == Status.UNBUILDABLE:
        return
    if row.reason:
        console.say(f"{row.case.key}: {row.reason}", "red")
    elif row.parity_reason:
        console.say(f"{row.case.key}: {row.parity_reason}", "dim")


def _flagged(row: Row, console: Console) -> None:
    """The flags of a case, and whether its number counts."""
    if row.flags:
        line = f"{row.case.key}: flags {', '.join(row.flags)}"
        if row.disturbed:
            line += f". Its device was disturbed ({row.disturbed}): it counts for nothing"
        console.say(f"{line}.", "yellow" if row.disturbed else "dim")


def _cells(row: Row, among: Sequence[Row]) -> tuple[str | Text, ...]:
    """One line of the table; where there is no figure, what became of the case instead."""
    axes = " ".join(f"{axis}={value}" for axis, value in sorted(row.case.axes.items()))
    name = f"{row.case.workload}:{row.case.preset} {axes}".strip()
    if row.throughput is None:
        good = row.state is JobState.SUCCEEDED or row.status is None
        said = Text(row.status or row.state.value, style="" if good else "red")
        return name, said, "", ""
    estimate = row.throughput
    rate = formats.quantity(estimate.value, row.unit)
    spread = formats.half_width(estimate.value, estimate.low, estimate.high, row.unit)
    return (name, f"{rate} {spread:>8}", _speedup(row, among), row.bottleneck or formats.DASH)


def _speedup(row: Row, among: Sequence[Row]) -> str:
    if row.speedup is not None:
        return formats.times(row.speedup.value)
    compared = {other.case.workload for other in among if other.speedup is not None}
    sound = row.throughput is not None and row.status == Status.OK and not row.reason
    return "baseline" if sound and row.case.workload in compared else formats.DASH
