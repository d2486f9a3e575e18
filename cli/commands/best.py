"""`throughline best`: the fastest case of each workload, and whether it overtook another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cli import options
from cli.client import ServiceClient, read
from cli.output.console import paper, table
from cli.output.lines import say
from service.schemas.best import BestCase
from service.schemas.jobs import Listing
from service.wording import formats, overtaken


def best(
    *,
    workload: Annotated[str | None, typer.Option(help="Only of this workload.")] = None,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Print the fastest case of each workload on each kind of hardware.

    It reads the newest points of the last 30 days, without cases that failed parity since. Named
    are also cases that cannot be told from the best, and the one that it overtook lately.
    """
    with ServiceClient(url) as client:
        text = client.text("best", workload=workload)
    if as_json:
        say(text)
    else:
        _print(read(Listing[BestCase], text).items)


def _print(found: Sequence[BestCase]) -> None:
    console = paper()
    if not found:
        console.print("No case: none was measured in the last 30 days, or parity failed since.")
        return
    right = ("throughput", "speed-up", "cases")
    drawn = table("workload", "best case", *right, "as good", right=right, whole=right)
    for one in found:
        drawn.add_row(*_cells(one))
    console.print(drawn)
    for one in found:
        if one.overtaken is not None:
            case = f"{_name(one)}, {overtaken.case_name(one.best.case)}"
            console.say(f"{case}: {overtaken.overtook(one)}")


def _cells(one: BestCase) -> tuple[str, ...]:
    case, speedup = one.best, one.over_baseline
    return (
        _name(one),
        overtaken.case_name(case.case),
        formats.quantity(case.value, one.unit),
        formats.DASH if speedup is None else formats.times(speedup.value),
        formats.number(one.cases),
        overtaken.as_good(one),
    )


def _name(one: BestCase) -> str:
    owner = f" of the project {one.project}" if one.project else ""
    size = "".join(f" {name}={value}" for name, value in sorted(one.sizes.items()))
    return f"{one.workload}:{one.preset}{size}{owner} on {formats.hardware(one.comparability)}"
