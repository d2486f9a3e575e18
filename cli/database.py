"""A database opened for one command: whatever is wrong with it ends the command in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from cli.exits import Exit, Stop
from service.auth.access_mode import NobodyMayEnter
from service.database.failures import explain
from service.database.health import check
from service.database.session import Database
from service.maintenance.backup import BackupRefused
from service.schemas.errors import ServiceError


@contextmanager
def stopping() -> Iterator[None]:
    """Turn errors of the service and of the database into the end of the command.

    Raises:
        Stop: with the error's own sentence.
    """
    try:
        yield
    except DBAPIError as error:
        known = explain(error)
        sentence = known.detail if known else f"The database cannot be used: {error.orig}"
        raise Stop(sentence, Exit.AWAY) from error
    except ServiceError as error:
        wrong_usage = error.status_code < 500 or isinstance(error, BackupRefused | NobodyMayEnter)
        raise Stop(error.detail, Exit.USAGE if wrong_usage else Exit.AWAY) from error


@contextmanager
def opened(url: str, *, write: bool = True) -> Iterator[Database]:
    """Open a database that has the tables of this version, and can be written unless not needed."""
    with stopping():
        database = Database(url)
        try:
            check(database, write=write)
            yield database
        finally:
            database.close()
