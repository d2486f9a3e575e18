"""The kernels of two profiled runs in a table, the largest difference first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from benchmarks.contracts import Profile
from benchmarks.diagnosis import kernel_changes
from cli.output import console as output
from service.wording import formats

MOST_ROWS = 8
"""Kernels that are printed of a case; its page on the dashboard has all."""
_COLOUR = {"faster": "green", "gone": "green", "slower": "red", "new": "red"}


def show(
    case: str,
    baseline: Profile,
    contender: Profile,
    console: output.Console,
    full: Sequence[kernel_changes.FigureChange] = (),
) -> None:
    """Print what changed in a step of ``case``, or why that cannot be told; first its ``full``."""
    for side, profile in (("baseline", baseline), ("contender", contender)):
        if why := kernel_changes.missing(profile):
            console.say(f"Kernels of {case}: not compared. The {side}: {why}", "dim")
            return
    right = ("baseline", "contender", "difference")
    drawn = output.table(f"{case}, each step", "it is", *right, right=right)
    for figure in (*full, *kernel_changes.figures(baseline, contender)):
        drawn.add_row(figure.name, "", *_numbers(figure.baseline, figure.contender, figure.unit))
    drawn.add_section()
    for change in kernel_changes.changes(baseline, contender)[:MOST_ROWS]:
        before, after = (one.self_s if one else None for one in (change.baseline, change.contender))
        verdict = Text(change.verdict, style=_COLOUR.get(change.verdict, ""))
        drawn.add_row(_name(change), verdict, *_numbers(before, after, "s", known=change.seconds))
    console.print(drawn)


def _name(change: kernel_changes.KernelChange) -> str:
    said = ", ".join(change.names)
    return f"{said} (was {', '.join(change.earlier)})" if change.earlier else said


def _numbers(
    before: float | None, after: float | None, unit: str, known: float | None = None
) -> tuple[str, str, str]:
    """Both sides and their difference, which is ``known`` where a side has none of it."""
    if before is not None and after is not None:
        known = after - before
    sign = "+" if known is not None and known > 0 else ""
    return _number(before, unit), _number(after, unit), sign + _number(known, unit)


def _number(value: float | None, unit: str) -> str:
    return formats.DASH if value is None else formats.quantity(value, unit)
