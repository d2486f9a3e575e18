"""The result table of a submission: what was measured, how it compares, and what limits it."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.contracts import JobState
from cli.answers import RowView
from service.dashboard import formats

_INTERVALS = {"within_run": "within the run", "replicates": "between processes"}
"""What the interval rests on; only the latter says where the next run will fall."""


def show(rows: Sequence[RowView], console: Console) -> None:
    """Print the table, and below it each failure with its reason."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("workload", no_wrap=True)
    table.add_column("case")
    table.add_column("throughput", justify="right")
    table.add_column("95 % interval")
    table.add_column("vs fp32 eager", justify="right")
    table.add_column("limited by")
    table.add_column("peak memory", justify="right")
    table.add_column("status")
    for row in rows:
        table.add_row(*_cells(row, rows))
    console.print(table)
    for row in rows:
        if row.reason:
            line = f"{row.case.key}: {row.reason}"
            console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)


def _cells(row: RowView, among: Sequence[RowView]) -> tuple[str | Text, ...]:
    """One line of the table."""
    axes = " ".join(f"{axis}={value}" for axis, value in sorted(row.case.axes.items()))
    rate, spread = formats.DASH, ""
    if row.throughput is not None:
        estimate = row.throughput
        rate = formats.quantity(estimate.value, row.unit)
        half_width = formats.half_width(estimate.value, estimate.low, estimate.high, row.unit)
        spread = f"{half_width} {_INTERVALS.get(estimate.interval, 'none')}".strip()
    good = row.state is JobState.SUCCEEDED
    return (
        f"{row.case.workload}:{row.case.preset}",
        axes or "all defaults",
        rate,
        spread,
        _speedup(row, among),
        row.bottleneck or formats.DASH,
        formats.DASH if row.peak_memory_b is None else formats.quantity(row.peak_memory_b, "B"),
        Text(row.status or row.state.value, style="green" if good else "red"),
    )


def _speedup(row: RowView, among: Sequence[RowView]) -> str:
    """Over the fp32 eager case of the same workload, which has none itself."""
    if row.speedup is not None:
        return formats.times(row.speedup.value)
    compared = {other.case.workload for other in among if other.speedup is not None}
    measured = row.throughput is not None and row.case.workload in compared
    return "baseline" if measured else formats.DASH
