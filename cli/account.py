"""Names the person who runs a command, where somebody has to stand for what it does."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from cli.exits import Stop

Actor = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Your name; by default that of your account here."),
]


def name_of(actor: str | None) -> str:
    """Return the name that was given, or that of the account.

    Raises:
        Stop: there is neither.
    """
    try:
        return actor or getpass.getuser()
    except (OSError, KeyError) as error:  # no such user, as in some containers
        raise Stop("Say who you are: --as NAME.") from error
