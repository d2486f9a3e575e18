"""`throughline backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.database import stopping
from cli.output.lines import say
from service.history.artifacts import store_of
from service.history.artifacts.bucket import BucketStore
from service.history.artifacts.folder import FolderStore
from service.maintenance import backup as copies
from service.settings import Settings
from service.wording.formats import counted


def backup(
    to: Annotated[Path, typer.Argument(metavar="TO", help="File to write; it must not exist.")],
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Copy the database to a file while the service goes on, and check the copy.

    Profilers' traces are copied into the folder TO.artifacts.
    """
    settings = Settings(state_dir=state_dir)
    with stopping():
        copies.backup(database or settings.url, to)
        traces = _copied(store_of(settings, database), copies.artifacts_of(to))
    say(f"The database is in {to}.{traces}")


def _copied(store: FolderStore | BucketStore, to: FolderStore) -> str:
    if isinstance(store, BucketStore):
        return f" The artifacts stay in {store.url}."
    count = store.copy_to(to)
    return f" {counted(count, 'artifact')} in {to.folder}." if count else ""
