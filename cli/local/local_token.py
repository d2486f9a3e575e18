"""This machine's own token on the command line: for `up`, its workers, and a link for a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from benchmarks import local_service
from cli.exits import Exit, Stop
from service.auth import access_mode, local_token
from service.database.failures import explain
from service.database.health import check
from service.database.session import Database
from service.errors import ServiceError
from service.settings import Access, Settings

T = TypeVar("T")


def prepare(settings: Settings) -> Path | None:
    """Make sure that the state folder holds a good token; None if the service asks for none.

    Raises:
        Stop: strangers could reach the service and no token is set up, or it cannot be made.
    """

    def do(database: Database) -> Path | None:
        access_mode.check(database, settings)
        if settings.access is Access.OPEN:
            return None
        return local_token.prepare(database, settings).absolute()

    return _done(settings, do)


def link(settings: Settings, url: str) -> str:
    """Make a link to the service at ``url`` that signs in there, once.

    Raises:
        Stop: it cannot be made.
    """
    if settings.access is Access.OPEN:
        raise Stop("The service asks for no token (THROUGHLINE_ACCESS=open): nobody signs in.")
    return url + _done(settings, lambda database: local_token.link(database, settings))


def read(path: Path | None) -> str:
    """The token in a file; nothing if there is no file."""
    return "" if path is None else path.read_text(encoding="utf-8").strip()


def _done(settings: Settings, do: Callable[[Database], T]) -> T:
    """Call ``do`` with the database of these settings, and return what it gives."""
    try:
        database = Database(settings.url)
        try:
            check(database)
            return do(database)
        finally:
            database.close()
    except access_mode.NobodyMayEnter as error:
        raise Stop(error.detail) from error
    except ServiceError as error:
        raise Stop(error.detail, Exit.AWAY) from error
    except DBAPIError as error:
        known = explain(error)
        raise Stop(known.detail if known else str(error.orig), Exit.AWAY) from error
    except OSError as error:
        path = local_service.token_file(settings.state_dir)
        raise Stop(f"{path} cannot be used: {error.strerror}.", Exit.AWAY) from error
