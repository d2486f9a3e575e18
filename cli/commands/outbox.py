"""`throughline outbox`: what was sent to the operator's sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cli import options
from cli.client import ServiceClient
from cli.exits import Exit, Stop
from cli.output.console import paper, table
from cli.output.lines import say
from service.schemas.outbox import DeliveryState, DeliveryView
from service.wording import formats


def outbox(
    *,
    state: Annotated[DeliveryState | None, typer.Option(help="Only those in this state.")] = None,
    test: Annotated[
        str | None, typer.Option(metavar="SINK", help="Have a test sent to this sink.")
    ] = None,
    again: Annotated[
        str | None, typer.Option(metavar="ID", help="Send this dead letter again.")
    ] = None,
    dismiss: Annotated[
        str | None, typer.Option(metavar="ID", help="Give this dead letter up.")
    ] = None,
    limit: options.Limit = 100,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """List what was sent to other programs, the newest first, or send something."""
    if sum(one is not None for one in (test, again, dismiss)) > 1:
        raise Stop("Take one of --test, --again and --dismiss.", Exit.USAGE)
    with ServiceClient(url) as client:
        if test is not None:
            shown = [client.test_sink(test)]
        elif again is not None:
            shown = [client.send_again(again)]
        elif dismiss is not None:
            shown = [client.dismiss(dismiss)]
        else:
            shown = client.deliveries(state=state, limit=limit).items
    if as_json:
        say(f"[{','.join(one.model_dump_json() for one in shown)}]")
    else:
        _print(shown)


def _print(deliveries: Sequence[DeliveryView]) -> None:
    drawn = table("at", "sink", "event", "state", "says", "id", whole=["state", "id"])
    for column in drawn.columns:
        column.overflow = "fold"
    for one in deliveries:
        at = formats.moment(one.delivered_at or one.due_at)
        tries = f" ({formats.counted(one.attempts, 'attempt')})" if one.attempts > 1 else ""
        drawn.add_row(at, one.sink, one.event, one.state + tries, one.error or one.headline, one.id)
    paper().print(drawn if deliveries else "Nothing was sent.")
