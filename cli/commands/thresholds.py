"""`throughline thresholds`: from which size on changes are reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cli import account, options
from cli.client import ServiceClient
from cli.output.console import paper, table
from cli.output.lines import say
from service.schemas.thresholds import ThresholdView
from service.wording import formats

app = typer.Typer(help="List, set and remove thresholds of findings.", no_args_is_help=True)


@app.command("list")
def list_thresholds(
    *, url: options.Url = options.DEFAULT_URL, as_json: options.Json = False
) -> None:
    """List from which size on changes are reported, and where nobody wants to hear of any."""
    with ServiceClient(url) as client:
        rules = client.thresholds()
    if as_json:
        say(rules.model_dump_json())
    else:
        _print(rules.items)


@app.command("set")
def set_threshold(
    size: Annotated[
        str, typer.Argument(metavar="SIZE", help="Such as 3% or 0.03; or never: report none.")
    ],
    *,
    project: Annotated[str | None, typer.Option(help="Only of this project.")] = None,
    workload: Annotated[str | None, typer.Option(help="Only of this workload.")] = None,
    metric: Annotated[str | None, typer.Option(help="Only of this metric.")] = None,
    series: Annotated[
        str | None, typer.Option(metavar="ID", help="Only of this series; alone.")
    ] = None,
    why: Annotated[str, typer.Option(help="The reason, which readers are shown.")],
    actor: account.Actor = None,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Report changes from SIZE on, of all that the options leave."""
    scope = {"project": project, "workload": workload, "metric": metric, "series_id": series}
    body: dict[str, str | float] = {k: part for k, part in scope.items() if part is not None}
    body |= {"least_effect": _share(size), "reason": why, "actor": account.name_of(actor)}
    with ServiceClient(url) as client:
        rule = client.set_threshold(body)
    if as_json:
        say(rule.model_dump_json())
    else:
        _print([rule])


@app.command("remove")
def remove(
    threshold: Annotated[str, typer.Argument(metavar="ID", help="The threshold's id.")],
    *,
    url: options.Url = options.DEFAULT_URL,
) -> None:
    """Remove a threshold: the next wider one, or the noise, decides from now on."""
    with ServiceClient(url) as client:
        client.remove_threshold(threshold)
    say("The threshold is removed.")


def _share(size: str) -> str | float:
    """A number as one; the service reads percentages and says what is wrong with anything else."""
    try:
        return float(size)
    except ValueError:
        return size


def _print(rules: Sequence[ThresholdView]) -> None:
    drawn = table("reported", "of", "set by", "id", whole=["reported", "id"])
    for column in drawn.columns:
        column.overflow = "fold"
    for rule in rules:
        set_by = f"{rule.actor}, {formats.moment(rule.set_at)}: {rule.reason}"
        drawn.add_row(formats.threshold(rule.least_effect), _scope(rule), set_by, rule.id)
    paper().print(drawn if rules else "There are no thresholds: the noise of a series decides.")


def _scope(rule: ThresholdView) -> str:
    names = {
        "project": rule.project,
        "workload": rule.workload,
        "metric": rule.metric,
        "series": rule.series_id,
    }
    named = [f"{name} {value}" for name, value in names.items() if value is not None]
    return ", ".join(named) or "everything"
