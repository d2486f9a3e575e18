"""`throughline migrate`."""

from __future__ import annotations

from cli.options import DEFAULT_STATE_DIR, StateDir
from cli.output.lines import say


def migrate(*, state_dir: StateDir = DEFAULT_STATE_DIR) -> None:
    """Bring the database up to date: THROUGHLINE_DATABASE_URL, or SQLite in the state folder.

    It can be run again at any time, and by several replicas at once. A database that a newer
    version made is left as it is, with exit code 3.
    """
    from cli import migration

    say(f"The {migration.migrate(state_dir)} database is up to date.")
