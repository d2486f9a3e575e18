"""`throughline findings`: what changed, and what is to be thought of it."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_URL, Json, Url

app = typer.Typer(help="List and show findings, and act on them.", no_args_is_help=True)
FindingId = Annotated[str, typer.Argument(metavar="FINDING", help="The finding's id.")]
Actor = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Your name; by default that of your account here."),
]
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
    "reopen": "Open it again: it is back, or was closed by mistake.",
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
        str | None, typer.Option(help="Only these: regression, improvement or bad_node.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List findings that ask for attention, the newest first."""
    from cli import findings

    active = None if closed or state is not None else "true"
    findings.show_list(url, state, kind, active, limit, as_json=as_json)


@app.command("show")
def show(finding: FindingId, *, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show one finding: its series, how far each moved, and what was done with it."""
    from cli import findings

    findings.show_one(url, finding, as_json=as_json)


@app.command("report")
def report(
    *,
    hours: Annotated[int, typer.Option(min=1, max=8_760, help="How far to look back.")] = 24,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show what was found lately, and how much of it is expected to be false."""
    from cli import findings

    findings.show_report(url, hours, as_json=as_json)


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
    actor: Actor = None,
    version: Version = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Say who looks after a finding, until when, and what there is to say of it."""
    from cli import findings

    plan = {"owner": owner, "due_on": due, "note": note}
    findings.assign(url, finding, plan, findings.By(actor, version), as_json=as_json)


def _add(name: str, meaning: str) -> None:
    def act(
        finding: FindingId,
        *,
        why: Annotated[str, typer.Option(help="Why; kept in its history.")] = "",
        actor: Actor = None,
        version: Version = None,
        url: Url = DEFAULT_URL,
        as_json: Json = False,
    ) -> None:
        from cli import findings

        by = findings.By(actor, version)
        findings.act(url, finding, name.replace("-", "_"), why, by, as_json=as_json)

    app.command(name, help=meaning)(act)


for _name, _meaning in ACTIONS.items():
    _add(_name, _meaning)
