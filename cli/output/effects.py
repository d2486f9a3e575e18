"""The effects of a factorial design, as a table: what each factor does, what pairs do together."""

from __future__ import annotations

from rich import box
from rich.table import Table

from cli.output.console import Console
from service.schemas.reports import Effects, Term
from service.wording import formats


def show(effects: Effects, console: Console) -> None:
    """Print main effects, then interactions, and what the design cannot tell apart."""
    console.print(f"\nEffects on the throughput of {effects.workload}", style="bold")
    if effects.missing:
        sentence = formats.not_estimated(effects.missing, effects.runs)
        console.print(sentence, style="red", markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(_table(effects))
        console.print(
            "Dim: not more than noise (Lenth's 95 % margin).", style="dim", highlight=False
        )
    console.print(" ".join(effects.limits), style="dim", highlight=False, markup=False)


def _table(effects: Effects) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("factor")
    table.add_column("compares")
    table.add_column("effect", justify="right", no_wrap=True)
    table.add_column("95 % margin", justify="right", no_wrap=True)
    for term in effects.terms:
        table.add_row(*_cells(term), style="" if term.clear else "dim")
    return table


def _cells(term: Term) -> tuple[str, str, str, str]:
    margin = f"{formats.times(term.low)} to {formats.times(term.high)}"
    return term.name, term.meaning, formats.times(term.ratio), margin
