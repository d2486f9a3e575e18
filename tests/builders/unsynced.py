"""SQLite that does not wait for the disk: a test that ends needs no protection from power cuts.

Each commit that waits costs milliseconds, tens of thousands of times in a run. What is committed is
with the kernel all the same, so a process that is killed loses nothing.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Engine, event

from service.database import engine

_as_served = engine._prepare_sqlite


def apply() -> None:
    """Open every SQLite database of this process so, from now on."""
    engine._prepare_sqlite = _prepare


def undo() -> None:
    """Open them as the service does."""
    engine._prepare_sqlite = _as_served


def _prepare(made: Engine, **how: Any) -> None:
    _as_served(made, **how)

    @event.listens_for(made, "connect")
    def _unsynced(connection: sqlite3.Connection, _entry: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")
