"""The result table of a submission: what was measured, how it compares, and what limits it."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.contracts import JobState
from cli.answers import RowView
from service import formats

ROOMY = 100
"""Columns of a terminal from which on peak memory has room beside the rest."""
_BASIS = {
    "within_run": "within the run: how steady this one process was, not where the next will fall",
    "replicates": "between processes: where the next one will fall",
}
"""What an interval rests on."""


def show(rows: Sequence[RowView], console: Console) -> None:
    """Print the table, what its intervals rest on, and each failure with its reason."""
    wide = console.width >= ROOMY
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("case", min_width=22)
    table.add_column("throughput, 95 %", justify="right", no_wrap=True)
    table.add_column("vs fp32", justify="right", no_wrap=True)
    table.add_column("limited by", no_wrap=True)
    if wide:
        table.add_column("peak memory", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, rows)[: len(table.columns)])
    console.print(table)
    for basis in dict.fromkeys(row.throughput.interval for row in rows if row.throughput):
        if basis in _BASIS:
            console.print(f"95 % interval {_BASIS[basis]}.", style="dim", highlight=False)
    for row in rows:
        if row.reason:
            line = f"{row.case.key}: {row.reason}"
            console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)


def _cells(row: RowView, among: Sequence[RowView]) -> tuple[str | Text, ...]:
    """One line of the table; where there is no figure, what became of the case instead."""
    axes = " ".join(f"{axis}={value}" for axis, value in sorted(row.case.axes.items()))
    name = f"{row.case.workload}:{row.case.preset} {axes}".strip()
    if row.throughput is None:
        good = row.state is JobState.SUCCEEDED or row.status is None
        said = Text(row.status or row.state.value, style="" if good else "red")
        return name, said, "", "", ""
    estimate = row.throughput
    rate = formats.quantity(estimate.value, row.unit)
    spread = formats.half_width(estimate.value, estimate.low, estimate.high, row.unit)
    return (
        name,
        f"{rate} {spread:>8}",
        _speedup(row, among),
        row.bottleneck or formats.DASH,
        formats.DASH if row.peak_memory_b is None else formats.quantity(row.peak_memory_b, "B"),
    )


def _speedup(row: RowView, among: Sequence[RowView]) -> str:
    """Over the fp32 eager case of the same workload, which has none itself."""
    if row.speedup is not None:
        return formats.times(row.speedup.value)
    compared = {other.case.workload for other in among if other.speedup is not None}
    measured = row.throughput is not None and row.case.workload in compared
    return "baseline" if measured else formats.DASH
