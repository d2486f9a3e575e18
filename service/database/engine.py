"""Engines: SQLite as the embedded default, PostgreSQL with the same code."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DisconnectionError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from service.schemas.errors import BUSY, DatabaseUnavailable

if TYPE_CHECKING:
    import psycopg

BUSY_S = 5.0
"""Longest time, in seconds, that a writer waits before the client is told to try again."""
UNDONE = "The database undid what was being written: its disk is full or failing; try again."
IDLE_S = 1.0
"""After which a connection is asked whether it is still one, before anything is sent over it."""
_USED_S = "used_s"


def parse(url: str) -> URL:
    """Read a database address; PostgreSQL is always spoken to through psycopg 3.

    Raises:
        DatabaseUnavailable: it is no address of SQLite or PostgreSQL.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    match parsed.get_backend_name() if parsed else None:
        case "sqlite" if parsed and parsed.database not in (None, "", ":memory:"):
            return parsed
        case "postgresql" if parsed:
            return parsed.set(drivername="postgresql+psycopg")
    raise DatabaseUnavailable(
        "The database address is not understood; set THROUGHLINE_DATABASE_URL to "
        "sqlite:///path/to/file or postgresql://user@host/name."
    )


def make_engine(url: URL, *, foreign_keys: bool = True, reader: bool = False) -> Engine:
    """Make an engine whose connections are set up for durable, orderly writes, or for none."""
    # Last in, first out: the connection in use has warm pages and prepared statements.
    if url.get_backend_name() == "sqlite":
        options = {"timeout": BUSY_S, "check_same_thread": False}
        engine = create_engine(url, connect_args=options, pool_use_lifo=True)
        _prepare_sqlite(engine, foreign_keys=foreign_keys, reader=reader)
        return engine
    # A question without a transaction around it is one way there and back in place of three, and
    # in one (READ COMMITTED) two questions would not see the same either.
    level: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if reader else {}
    engine = create_engine(url, connect_args={"connect_timeout": 5}, pool_use_lifo=True, **level)
    _prepare_postgresql(engine, reader=reader)
    return engine


def _prepare_sqlite(engine: Engine, *, foreign_keys: bool, reader: bool) -> None:
    turn = threading.Lock()  # fair within the process; SQLite's own waiting is a lottery

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # the driver begins nothing; `_begin` does
        with suppress(sqlite3.OperationalError):  # a read-only file keeps its mode
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")
        connection.execute(f"PRAGMA query_only={'ON' if reader else 'OFF'}")

    @event.listens_for(engine, "commit")
    def _commit(connection: Connection) -> None:
        # A full disk ends the whole transaction, also where only a part of it was being undone.
        raw = connection.connection.driver_connection
        if raw is None or not raw.in_transaction:
            raise DatabaseUnavailable(UNDONE)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if reader:
            _begin_with(connection, "BEGIN")
            return
        if not turn.acquire(timeout=BUSY_S):
            raise DatabaseUnavailable(BUSY)
        entry = connection.connection.record_info
        assert entry is not None
        entry["turn"] = True
        _begin_with(connection, "BEGIN IMMEDIATE")

    @event.listens_for(engine, "checkin")
    def _checkin(_connection: object, entry: ConnectionPoolEntry) -> None:
        if (entry.record_info or {}).pop("turn", False):
            turn.release()


def _begin_with(connection: Connection, statement: str) -> None:
    try:
        cast(sqlite3.Connection, connection.connection.driver_connection).execute(statement)
    except sqlite3.Error as error:
        raise OperationalError(statement, None, error) from error


def _prepare_postgresql(engine: Engine, *, reader: bool) -> None:
    @event.listens_for(engine, "connect")
    def _connect(connection: psycopg.Connection[Any], _entry: ConnectionPoolEntry) -> None:
        connection.execute("SET TIME ZONE 'UTC'")
        if reader:
            connection.execute("SET default_transaction_read_only = on")
        connection.commit()

    # SQLAlchemy's own pool_pre_ping asks each time, which costs more than what is asked then.
    @event.listens_for(engine, "checkout")
    def _checkout(connection: DBAPIConnection, entry: ConnectionPoolEntry, _: object) -> None:
        if time.monotonic() - entry.info.get(_USED_S, -inf) < IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error:
            raise DisconnectionError from None  # the pool opens it anew

    @event.listens_for(engine, "checkin")
    def _checkin(_connection: object, entry: ConnectionPoolEntry) -> None:
        entry.info[_USED_S] = time.monotonic()
