"""`throughline migrate`."""

from __future__ import annotations

from pathlib import Path

from cli import options
from cli.database import stopping
from cli.output.lines import say
from service.database.migrate import upgrade
from service.settings import Settings


def migrate(*, state_dir: options.StateDir = options.DEFAULT_STATE_DIR) -> None:
    """Bring the database up to date: THROUGHLINE_DATABASE_URL, or SQLite in the state folder.

    It can be run again at any time, and by several replicas at once. A database that a newer
    version made is left as it is, with exit code 3.
    """
    say(f"The {bring_up_to_date(state_dir)} database is up to date.")


def bring_up_to_date(state_dir: Path) -> str:
    """Apply the migrations that are missing; return the database's kind."""
    url = Settings(state_dir=state_dir).url
    with stopping():
        upgrade(url)
    return url.partition(":")[0].partition("+")[0]
