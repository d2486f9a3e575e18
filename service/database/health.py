"""Checks that the database can be used, and says in one sentence what is wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import cast

import anyio
from sqlalchemy import Connection, Table, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from service.analysis_process import ProcessEnded
from service.database.connections import Database, insert_if_absent, rows
from service.errors import BUSY, Conflict, DatabaseUnavailable, NotMigrated, ServiceError
from service.models import WriteProbe

MIGRATE = "run: throughline migrate"
ADDRESS = "check its address (THROUGHLINE_DATABASE_URL)"
READ_ONLY = "The database is read-only; make its file and folder writable, then try again."


AFRESH_S = 5.0
"""How long it holds that the database can be written. Whoever may ask without a token has a row
written so often and no more, and keeps no writer waiting."""
FAULT_S = 1.0
"""How long a fault holds."""
_PROBES = cast(Table, WriteProbe.__table__)
_PROBE = update(_PROBES).values(written=(_PROBES.c.written + 1) % 1_000_000)


class Checkup:
    """Checks now and then, however many ask, that the database can be read and written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = anyio.Lock()
        self._found_s = -inf
        self._fault: ServiceError | None = None

    async def now(self) -> float:
        """Make sure that the database can be read and written; gives the age of that finding in s.

        Raises:
            DatabaseUnavailable: it is away, locked, busy, read-only, or its disk is full.
            NotMigrated: it lacks this version's tables.
            MadeByNewer: it has those of a newer version.
        """
        async with self._turn:
            if self._age_s() >= (AFRESH_S if self._fault is None else FAULT_S):
                await self._look()
        if self._fault is not None:
            raise self._fault.with_traceback(None)
        return self._age_s()

    def _age_s(self) -> float:
        return time.monotonic() - self._found_s

    async def _look(self) -> None:
        self._fault = None
        try:
            _check_there(self._database)
            await self._database.run(probe, write=True)
        except ServiceError as fault:
            self._fault = fault
        except DBAPIError as error:
            self._fault = explain(error)
            if self._fault is None:
                raise
        self._found_s = time.monotonic()


def probe(session: Session) -> None:
    """Look at the database's version and write a row; that it was written the commit says.

    A change that is undone would tell nothing: a full disk refuses what is committed.
    """
    _check_version(session.connection())
    if rows(session, _PROBE) == 0:
        insert_if_absent(session, _PROBES, {"id": 1, "written": 0})


def check(database: Database, *, write: bool = True) -> None:
    """Make sure that the database can be used, and written unless ``write`` is False.

    Raises:
        DatabaseUnavailable: it is away, locked or read-only, or the role lacks rights.
        NotMigrated: it lacks this version's tables.
        MadeByNewer: it has those of a newer version.
    """
    _check_there(database)
    try:
        with database.engine.connect() as connection:
            _check_version(connection)
            if write:
                connection.execute(_PROBE)  # is undone; a role without rights is refused
            connection.rollback()
    except DBAPIError as error:
        raise explain(error) or error from error


def _check_there(database: Database) -> None:
    path = database.url.database
    if database.kind == "sqlite" and not database.url.query and not Path(path or "").exists():
        raise NotMigrated(f"There is no database at {path}; {MIGRATE}")


def _check_version(connection: Connection) -> None:
    from service.database.migrate import heads, refuse_newer, version_of  # noqa: PLC0415 - Alembic only when needed

    found, wanted = version_of(connection), heads()
    if found is None:
        raise NotMigrated(f"The database has no tables yet; {MIGRATE}")
    if found not in wanted:
        refuse_newer(found)
        raise NotMigrated(
            f"The database is at version {found} and this service needs {', '.join(wanted)}; "
            f"{MIGRATE}"
        )


_SAYINGS: Sequence[tuple[tuple[str, ...], ServiceError]] = (
    (
        ("no such table", "no such column", "undefinedtable"),
        NotMigrated(f"Not migrated; {MIGRATE}"),
    ),
    (("readonly", "read-only"), DatabaseUnavailable(READ_ONLY)),
    (("locked", "busy"), DatabaseUnavailable(BUSY)),
    (
        ("disk is full", "disk full", "diskfull", "no space left on device"),
        DatabaseUnavailable("The database's disk is full; free space."),
    ),
    (
        ("disk i/o error",),
        DatabaseUnavailable(
            "The database's disk fails, or a limit of its size is reached; look at it."
        ),
    ),
    (
        ("deadlock", "serializ"),
        DatabaseUnavailable("Two requests met in the database; try again in a moment."),
    ),
    (
        ("insufficientprivilege",),
        DatabaseUnavailable(
            "The database's role lacks rights: let it create tables there, and own them."
        ),
    ),
    (
        ("file is not a database",),
        DatabaseUnavailable(
            f"The database's file is no SQLite database; {ADDRESS}, or move the file away."
        ),
    ),
    (
        ("unable to open database file",),
        DatabaseUnavailable(
            "The database's file cannot be opened; let the service's user read and write it and "
            "its folder."
        ),
    ),
)

_REFUSALS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r'database ".*" does not exist'), f"has no such database; create it, or {ADDRESS}"),
    (re.compile(r'role ".*" does not exist'), f"knows no such role; create it, or {ADDRESS}"),
    (
        re.compile(r"authentication failed|no password supplied|pg_hba|not permitted to log in"),
        f"does not let this role in; {ADDRESS}, with role and password",
    ),
    (
        re.compile(r"starting up|shutting down|recovery mode|not yet accepting"),
        "starts or stops; try again in a moment",
    ),
    (re.compile(r"too many|connection slots"), "has no connection left; raise max_connections"),
    (re.compile(r"FATAL:"), "refuses the connection; its log says why"),
)
"""What PostgreSQL says to who wants in, and what is told of it: no name, as anybody may read it."""


def explain(error: DBAPIError) -> ServiceError | None:
    """Say in one sentence what is wrong with the database; None if the fault is ours."""
    if isinstance(error, DataError | IntegrityError):  # whatever words the data themselves hold
        return None
    said = f"{type(error.orig).__name__} {error.orig}".lower()
    for words, meaning in _SAYINGS:
        if any(word in said for word in words):
            return meaning
    if error.connection_invalidated or type(error).__name__ in (
        "OperationalError",
        "InterfaceError",
    ):
        return DatabaseUnavailable(_away(str(error.orig)))
    return None


def _away(said: str) -> str:
    """Explain why there is no connection: no server answers, or the server refuses."""
    for words, told in _REFUSALS:
        if words.search(said):
            return f"The database server {told}."
    return "The database cannot be reached; check that it runs."


def passes(error: Exception) -> bool:
    """Return True if an error passes, so that the same work may succeed later.

    It passes if database or service are away, or if another was faster. Anything else, such as a
    value that the database does not take, comes again with the same data, and must cost whoever
    brought it and nobody else.
    """
    if isinstance(error, DBAPIError):
        taken = isinstance(error, IntegrityError) and "unique" in str(error.orig).lower()
        return taken or explain(error) is not None
    return isinstance(error, DatabaseUnavailable | Conflict | PoolTimeout | ProcessEnded)
