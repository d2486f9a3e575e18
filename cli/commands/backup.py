"""`throughline backup`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.exits import Exit, Stop
from cli.output.lines import say
from service.errors import ServiceError
from service.maintenance import backup as copies
from service.settings import Settings


def backup(
    to: Annotated[Path, typer.Argument(metavar="TO", help="File to write; it must not exist.")],
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Copy the database to a file while the service goes on, and check the copy."""
    copy(copies.backup, database, state_dir, to)
    say(f"The database is in {to}.")


def copy(
    step: Callable[[str, Path], None], database: str | None, state_dir: Path, file: Path
) -> None:
    """Copy the database of an address or of the state folder to a file, or back.

    Raises:
        Stop: it cannot be done.
    """
    try:
        step(database or Settings(state_dir=state_dir).url, file)
    except copies.BackupRefused as error:
        raise Stop(error.detail) from error
    except ServiceError as error:
        raise Stop(error.detail, Exit.AWAY) from error
