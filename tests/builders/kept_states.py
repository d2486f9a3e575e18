"""States of a SQLite database that many tests begin with: made once in a process, then copied.

To live through the same nights anew takes up to a second of a processor; to copy what they left
takes some milliseconds. PostgreSQL has no copy as cheap, so there they are lived through.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.database.session import Database

T = TypeVar("T")

_KEPT: dict[Hashable, tuple[sqlite3.Connection, Any]] = {}
_CHANGED = "rows changed before a test began"


def bring(database: Database, name: str, make: Callable[[], T]) -> T:
    """Bring a database to where ``make`` brings each like it; give what that gave.

    ``name`` names the state in this process. All who name it have a database with the same rows
    before, as others would be lost, and nobody uses it meanwhile.
    """
    if database.kind != "sqlite":
        return make()
    if name not in _KEPT:
        made = make()
        _keep(database.engine, name, made)
        return made
    return cast("T", _bring_back(database.engine, name))


def begin(session: Session) -> None:
    """Note that a test begins here, with a session that others begin with too."""
    session.info[_CHANGED] = _changed(session)


def advance(session: Session, name: Hashable, make: Callable[[], T]) -> T:
    """Do as `bring` does with the database of a session, if no row was written since `begin`."""
    changed = session.info.pop(_CHANGED, None)
    if changed is None or changed != _changed(session):
        return make()
    engine = cast("Engine", session.get_bind())
    if name in _KEPT:
        session.commit()
        told = _bring_back(engine, name)
        session.expire_all()
        return cast("T", told)
    made = make()
    session.commit()
    _keep(engine, name, made)
    return made


def _changed(session: Session) -> int | None:
    """Count the rows that a session's connection has written; None where it is to PostgreSQL."""
    connection = session.connection().connection.driver_connection
    return connection.total_changes if isinstance(connection, sqlite3.Connection) else None


def _keep(engine: Engine, name: Hashable, told: object) -> None:
    copy = sqlite3.connect(":memory:", check_same_thread=False)
    with _connected(engine) as connection:
        connection.backup(copy)
    _KEPT[name] = copy, told


def _bring_back(engine: Engine, name: Hashable) -> Any:
    copy, told = _KEPT[name]
    with _connected(engine) as connection:
        copy.backup(connection)
    return told


@contextmanager
def _connected(engine: Engine) -> Iterator[sqlite3.Connection]:
    pooled = engine.raw_connection()
    try:
        yield cast("sqlite3.Connection", pooled.driver_connection)
    finally:
        pooled.close()
