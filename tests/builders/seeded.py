"""A database file that holds the history of `builders.history`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from builders import history

from service.database.session import Database


@dataclass(frozen=True)
class Seeded:
    """A database file with a history, and the ids of what is in it."""

    path: Path
    ids: dict[str, str]


def seed(path: Path, *, revisions: int) -> Seeded:
    """Fill the migrated database at ``path`` with the newest revisions of the history."""
    database = Database(f"sqlite:///{path}")
    with database.writing() as session:
        ids = history.fill(session, datetime.now(UTC), count=revisions)
    database.close()
    return Seeded(path, ids)
