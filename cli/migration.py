"""Brings the database of a state folder, or the one that the environment names, up to date."""

from __future__ import annotations

from pathlib import Path

from cli.exits import Exit, Stop
from service.database.migrate import upgrade
from service.errors import ServiceError
from service.settings import Settings


def migrate(state_dir: Path) -> str:
    """Apply the migrations that are missing; return the database's kind.

    Raises:
        Stop: the database cannot be used.
    """
    url = Settings(state_dir=state_dir).url
    try:
        upgrade(url)
    except ServiceError as error:
        raise Stop(error.detail, Exit.AWAY) from error
    return url.partition(":")[0].partition("+")[0]
