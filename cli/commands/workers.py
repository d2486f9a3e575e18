"""`throughline workers`: which there are, and which of them are given no job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli import account, options
from cli.client import ServiceClient
from cli.output.console import paper, table
from cli.output.lines import say
from service.schemas.jobs import WorkerView
from service.wording import formats, waiting

app = typer.Typer(
    help="List workers; drain one, so that it gets no job, and resume it.", no_args_is_help=True
)
WorkerName = Annotated[str, typer.Argument(metavar="NAME", help="The worker's name.")]


@app.command("list")
def list_workers(*, url: options.Url = options.DEFAULT_URL, as_json: options.Json = False) -> None:
    """List workers, the last seen first."""
    with ServiceClient(url) as client:
        known = client.workers()
    if as_json:
        say(known.model_dump_json())
    else:
        _print(known.items)


@app.command("drain")
def drain(
    name: WorkerName,
    *,
    reason: Annotated[str, typer.Option(help="Shown wherever jobs wait for it.")] = "",
    actor: account.Actor = None,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Give a worker no further job: it finishes what it has, and may be stopped then."""
    with ServiceClient(url) as client:
        one = client.drain(name, {"reason": reason, "actor": account.name_of(actor)})
    say(one.model_dump_json() if as_json else f"{_state(one)}.")


@app.command("resume")
def resume(
    name: WorkerName, *, url: options.Url = options.DEFAULT_URL, as_json: options.Json = False
) -> None:
    """Give a drained worker jobs again."""
    with ServiceClient(url) as client:
        one = client.resume(name)
    say(one.model_dump_json() if as_json else f"{one.name} is given jobs again.")


def _print(workers: Sequence[WorkerView]) -> None:
    drawn = table("worker", "device", "last seen", "drained", whole=["worker"])
    now = datetime.now(UTC)
    for one in workers:
        device = one.labels.get("gpu", one.labels.get("device", ""))
        since = f", {formats.ago(one.drain.at, now)}" if one.drain else ""
        said = _state(one) + since if one.drain else ""
        drawn.add_row(one.name, device, formats.ago(one.last_seen_at, now), said)
    paper().print(drawn if workers else "No worker has introduced itself yet.")


def _state(one: WorkerView) -> str:
    return waiting.drained(one.name, one.drain) if one.drain else ""
