"""`throughline restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.database import stopping
from cli.output.lines import say
from service.history.artifacts import store_of
from service.history.artifacts.folder import FolderStore
from service.maintenance import backup as copies
from service.settings import Settings


def restore(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="File that `backup` wrote.")],
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Make the database out of a backup; one that is there is never overwritten."""
    settings = Settings(state_dir=state_dir)
    with stopping():
        copies.restore(database or settings.url, source)
        store = store_of(settings, database)
        if isinstance(store, FolderStore):  # a bucket has them still
            copies.artifacts_of(source).copy_to(store)
    say(f"The database is back from {source}; now run: throughline migrate")
