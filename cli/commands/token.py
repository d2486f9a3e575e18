"""`throughline token`: who may use a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli import options, tokens

Kind = Literal["read", "submit", "worker", "admin"]

app = typer.Typer(
    help="Make, list, renew and end tokens, where the service's database is.", no_args_is_help=True
)
TokenId = Annotated[str, typer.Argument(metavar="ID", help="As `throughline token list` shows it.")]


@app.command("create")
def create(
    *,
    kind: Annotated[Kind, typer.Option(help="What it is good for.")],
    name: Annotated[
        str, typer.Option(help="What it is for, such as ci; of a worker's token its worker.")
    ],
    project: Annotated[
        str | None,
        typer.Option(help="Of kind read or submit: the only project that it sees and submits to."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Such as 90d or 12h; without it never.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Write it here and print nothing; a good one that is here already stays."
        ),
    ] = None,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """Make a token and print it, once: only a keyed hash of it is kept.

    The first token of the kind admin has the service ask for one for reading, too, within a second.
    """
    with tokens.desk(database, state_dir) as desk:
        order = tokens.TokenOptions(kind, name, expires, project)
        if file is None:
            desk.create(order, as_json=as_json)
        else:
            desk.keep(order, file)


@app.command("enrolment")
def enrolment(
    *,
    worker: Annotated[
        str | None, typer.Option(help="The only worker that may use it; by default any one.")
    ] = None,
    valid: Annotated[str, typer.Option(metavar="SPAN", help="For how long.")] = "1h",
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """Make a code with which one worker fetches a token of its own, once."""
    with tokens.desk(database, state_dir) as desk:
        desk.enrolment(worker, valid, as_json=as_json)


@app.command("sign-in")
def sign_in(
    *,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="THROUGHLINE_URL",
            help="Address of the service; by default where one of this state folder answers.",
        ),
    ] = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Print a link that signs a browser in on the dashboard, once and within 15 minutes.

    Whoever opens it is the administrator of this machine's own service for twelve hours.
    """
    tokens.show_link(url, state_dir)


@app.command("list")
def list_tokens(
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """List all tokens, the newest first, without what is secret of them."""
    with tokens.desk(database, state_dir) as desk:
        desk.show(as_json=as_json)


@app.command("rotate")
def rotate(
    token_id: TokenId,
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """Give a token another secret and print it; the old one is refused from then on."""
    with tokens.desk(database, state_dir) as desk:
        desk.rotate(token_id, as_json=as_json)


@app.command("revoke")
def revoke(
    token_id: TokenId,
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """End a token: it is refused within a second."""
    with tokens.desk(database, state_dir) as desk:
        desk.revoke(token_id)
