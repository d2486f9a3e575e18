"""`throughline findings`: what changed, and what is to be thought of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli import account, options
from cli.client import ServiceClient, read
from cli.exits import Stop
from cli.output.console import paper, table
from cli.output.lines import say
from service.schemas import findings as schemas
from service.schemas.bisections import BisectionSummary
from service.schemas.jobs import Listing
from service.wording import formats

app = typer.Typer(help="List and show findings, and act on them.", no_args_is_help=True)
FindingId = Annotated[str, typer.Argument(metavar="FINDING", help="The finding's id.")]
Version = Annotated[
    int | None,
    typer.Option(
        "--seen", min=1, metavar="VERSION", help="Only if nobody has changed it since this version."
    ),
]
ACTIONS = {
    "acknowledge": "Say that somebody looks after it; it stays in the list.",
    "resolve": "Close it: its cause is gone.",
    "expect": "Close it: the change is wanted, and the new level is the baseline.",
    "not-reproduced": "Close it: it was measured again and is not there.",
    "environment": "Close it: the environment changed, not the code.",
    "infrastructure": "Close it: a node or its surroundings were at fault.",
    "withdraw": "Close it: it was never there.",
    "reopen": "Open it again: it is back, or that was a mistake.",
}
"""The commands that act, each named as its action in the API, with hyphens."""


@app.command("list")
def list_findings(
    *,
    closed: Annotated[bool, typer.Option("--all", help="Those that are closed, too.")] = False,
    state: Annotated[
        str | None, typer.Option(help="Only these: open, acknowledged, resolved, expected ...")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Only these: regression, improvement, bad_node, overtaken, failure."),
    ] = None,
    limit: options.Limit = 20,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """List findings that ask for attention, the newest first."""
    active = None if closed or state is not None else "true"
    with ServiceClient(url) as client:
        text = client.text("findings", state=state, kind=kind, active=active, limit=limit)
    page = read(Listing[schemas.FindingSummary], text)
    if as_json:
        say(text)
    else:
        _print_list(page.items, "There are no such findings.")


@app.command("show")
def show(
    finding: FindingId, *, url: options.Url = options.DEFAULT_URL, as_json: options.Json = False
) -> None:
    """Show one finding: its series, how far each moved, a bisection, and what was done with it."""
    with ServiceClient(url) as client:
        text = client.text("findings", finding)
        newest = client.text("bisections", finding=finding, limit=1)
    _show(text, read(Listing[BisectionSummary], newest).items, as_json=as_json)


@app.command("report")
def report(
    *,
    hours: Annotated[int, typer.Option(min=1, max=8_760, help="How far to look back.")] = 24,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Show what was found lately, and how much of it is expected to be false."""
    with ServiceClient(url) as client:
        text = client.text("findings", "report", hours=hours)
    recent = read(schemas.MorningReport, text)
    if as_json:
        say(text)
        return
    _print_list(recent.opened, f"Nothing was found in the last {hours} h.")
    say(
        f"{formats.counted(recent.active, 'finding')} of any age "
        f"{'asks' if recent.active == 1 else 'ask'} for attention; expected false alarms among "
        f"those opened: {formats.number(recent.expected_false)}."
    )


@app.command("assign")
def assign(
    finding: FindingId,
    *,
    owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who looks after it; '' for nobody.")
    ] = None,
    due: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Until when, such as 2026-12-01; '' for none."),
    ] = None,
    note: Annotated[str | None, typer.Option(help="What there is to say; '' for nothing.")] = None,
    actor: account.Actor = None,
    version: Version = None,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Say who looks after a finding, until when, and what there is to say of it."""
    plan = {"owner": owner, "due_on": due, "note": note}
    body: dict[str, object] = {name: text for name, text in plan.items() if text is not None}
    if not body:
        raise Stop("Say what is to change: --owner, --due or --note.")
    if body.get("due_on") == "":
        body["due_on"] = None
    with ServiceClient(url) as client:
        _show(
            client.send_text("PATCH", "findings", finding, body=body | _by(actor, version)),
            as_json=as_json,
        )


def _add(name: str, meaning: str) -> None:
    def act(
        finding: FindingId,
        *,
        why: Annotated[str, typer.Option(help="Why; kept in its history.")] = "",
        actor: account.Actor = None,
        version: Version = None,
        url: options.Url = options.DEFAULT_URL,
        as_json: options.Json = False,
    ) -> None:
        body = {"action": name.replace("-", "_"), "detail": why, **_by(actor, version)}
        with ServiceClient(url) as client:
            _show(
                client.send_text("POST", "findings", finding, "actions", body=body), as_json=as_json
            )

    app.command(name, help=meaning)(act)


for _name, _meaning in ACTIONS.items():
    _add(_name, _meaning)


def _by(actor: str | None, version: int | None) -> dict[str, object]:
    seen = {} if version is None else {"version": version}
    return {"actor": account.name_of(actor), **seen}


def _print_list(items: Sequence[schemas.FindingSummary], none: str) -> None:
    console = paper()
    wide = console.is_roomy
    more = ("kind", "effect", "owner", "opened") if wide else ()
    drawn = table("finding", "state", *more, "what", whole=("finding", "state", "effect"))
    now = datetime.now(UTC)
    for one in items:
        beside = (_plain(one.kind), formats.effect(one), one.owner, formats.ago(one.opened_at, now))
        drawn.add_row(one.id, _plain(one.state), *(beside if wide else ()), one.sentence)
    console.print(drawn if items else none)


def _show(text: str, bisections: Sequence[BisectionSummary] = (), *, as_json: bool) -> None:
    finding = read(schemas.FindingView, text)
    if as_json:
        say(text)
        return
    console = paper()
    for name, fact in _facts(finding.summary):
        if fact:
            console.say(f"{name:<10} {fact}")
    for bisection in bisections:
        console.say(f"{'bisected':<10} {bisection.sentence}")
    for one in finding.series:
        console.say(f"{'series':<10} {_moved(one)}")
    for failed in finding.failed:
        console.say(f"{'case':<10} {_failed(failed)}")
    for event in finding.events:
        detail = f": {event.detail}" if event.detail else ""
        console.say(f"{formats.moment(event.at)}  {event.actor}  {_plain(event.action)}{detail}")


def _facts(one: schemas.FindingSummary) -> tuple[tuple[str, str], ...]:
    return (
        ("finding", one.id),
        ("what", one.sentence),
        ("kind", _plain(one.kind)),
        ("state", _plain(one.state)),
        ("cause", _plain(one.cause)),
        ("certainty", _plain(one.certainty)),
        ("project", one.project),
        ("last good", one.last_good or ""),
        ("first bad", one.first_bad),
        ("worker", one.worker or ""),
        ("owner", one.owner),
        ("due", "" if one.due_on is None else one.due_on.isoformat()),
        ("note", one.note),
        ("opened", formats.moment(one.opened_at)),
        ("closed", "" if one.closed_at is None else formats.moment(one.closed_at)),
        ("version", str(one.version)),
    )


def _moved(one: schemas.AffectedSeries) -> str:
    named = one.series
    between = f"{formats.change(one.effect_low)} to {formats.change(one.effect_high)}"
    ended = f", {_plain(one.ended)}" if one.ended else ""
    return (
        f"{named.case.key} {named.metric}: {formats.change(one.effect)} ({between}), "
        f"{formats.quantity(one.before, named.unit)} before, "
        f"{formats.quantity(one.after, named.unit)} after{ended}"
    )


def _failed(one: schemas.FailedCase) -> str:
    since = f"{one.first_revision} to {one.newest_revision} on {', '.join(one.workers)}"
    over = "" if one.fails else ", not any more"
    return f"{one.series.case.key}: {formats.counted(one.results, 'failure')}, {since}{over}"


def _plain(word: str) -> str:
    return word.replace("_", " ")
