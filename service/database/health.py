"""Checks that the database can be used, and says in one sentence what is wrong."""

from __future__ import annotations

import time
from math import inf
from pathlib import Path
from typing import cast

import anyio
from sqlalchemy import Connection, Table, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from service.database.failures import MIGRATE, explain
from service.database.session import Database, insert_if_absent, rows
from service.models import WriteProbe
from service.schemas.errors import NotMigrated, ServiceError

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
        self._checked_s = -inf
        self._fault: ServiceError | None = None

    async def now(self) -> float:
        """Make sure that the database can be read and written; gives the age of the check in s.

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
        return time.monotonic() - self._checked_s

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
        self._checked_s = time.monotonic()


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

    version, newest = version_of(connection), heads()
    if version is None:
        raise NotMigrated(f"The database has no tables yet; {MIGRATE}")
    if version not in newest:
        refuse_newer(version)
        raise NotMigrated(
            f"The database is at version {version} and this service needs {', '.join(newest)}; "
            f"{MIGRATE}"
        )
