"""`throughline backup` and `throughline restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import DEFAULT_STATE_DIR, Database, StateDir
from cli.output.lines import say


def backup(
    to: Annotated[Path, typer.Argument(metavar="TO", help="File to write; it must not exist.")],
    *,
    database: Database = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
) -> None:
    """Copy the database to a file while the service goes on, and check the copy."""
    from cli import backup as copying

    copying.backup(database, state_dir, to)
    say(f"The database is in {to}.")


def restore(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="File that `backup` wrote.")],
    *,
    database: Database = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
) -> None:
    """Make the database out of a backup; one that is there is never overwritten."""
    from cli import backup as copying

    copying.restore(database, state_dir, source)
    say(f"The database is back from {source}; now run: throughline migrate")
