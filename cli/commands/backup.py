"""`throughline backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.database import stopping
from cli.output.lines import say
from service.maintenance import backup as copies
from service.settings import Settings


def backup(
    to: Annotated[Path, typer.Argument(metavar="TO", help="File to write; it must not exist.")],
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Copy the database to a file while the service goes on, and check the copy."""
    with stopping():
        copies.backup(database or Settings(state_dir=state_dir).url, to)
    say(f"The database is in {to}.")
