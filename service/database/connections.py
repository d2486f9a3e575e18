"""Connections: SQLite as the embedded default, PostgreSQL with the same code.

A transaction begins with its first statement and is committed by whoever opened the session,
before any answer leaves. The database's time is the only wall clock.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import anyio
import anyio.to_thread
from fastapi import Depends
from sqlalchemy import (
    Connection,
    CursorResult,
    Engine,
    Table,
    Update,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.dml import ReturningInsert
from starlette.requests import Request

from service.database.group_commit import Errand, do_alone, do_together
from service.errors import BUSY, DatabaseUnavailable
from service.models.project_filter import restrict

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

BUSY_S = 5.0
"""How long a writer waits for its turn before the client is told to try again."""
TURN_S = 20.0
"""How long a request waits before the database lets it in."""
TOGETHER = 16
"""Errands that share a transaction at most; others wait until it is over."""
UNDONE = "The database undid what was being written: its disk is full or failing; try again."
IDLE_S = 1.0
"""After which a connection is asked whether it is still one, before anything is sent over it."""
_WITNESS = "witness"
_USED_S = "used_s"


class Database:
    """The engine of one process, and its sessions.

    ``concurrent`` sessions of each kind are open at once for requests, and one that writes on
    SQLite; more would only wait for each other inside the database.
    """

    def __init__(self, url: str, concurrent: int = 4) -> None:
        self.url = parse(url)
        self.engine = make_engine(self.url)
        self._reader = make_engine(self.url, reader=True)
        self._errands: deque[Errand[Any]] = deque()
        """What waits for the turn to write to SQLite."""
        self._readers = anyio.Semaphore(concurrent)
        self._writers = anyio.Semaphore(1 if self.kind == "sqlite" else concurrent)

    @property
    def kind(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self.engine.dialect.name

    def session(self, *, write: bool) -> Session:
        """Open a session; it asks for a connection when it is first used."""
        return Session(self.engine if write else self._reader, expire_on_commit=False)

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open a session that is committed at the end; on SQLite writers take turns."""
        with self.session(write=True) as session:
            yield session
            session.commit()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session that changes nothing and holds no writer up."""
        with self.session(write=False) as session:
            yield session

    def ask(self, question: Callable[[Session], T]) -> T:
        """Answer a question in a session that reads, in this thread."""
        with self.reading() as session:
            return question(session)

    @asynccontextmanager
    async def turn(self, *, write: bool) -> AsyncIterator[None]:
        """Wait until a request may open a session. Waiting holds no thread and no connection.

        Without it, requests that wait for the database would hold every thread, and the one that
        they wait for would find none to go on with.

        Raises:
            DatabaseUnavailable: the turn did not come in time.
        """
        turns = self._writers if write else self._readers
        try:
            turns.acquire_nowait()
        except anyio.WouldBlock:
            await _wait(turns)
        try:
            yield
        finally:
            turns.release()

    async def run(self, work: Callable[[Session], T], *, write: bool) -> T:
        """Do ``work`` in a session of its own, in a thread, when its turn comes.

        Who has the turn to write to SQLite does what others wait to write as well, in the same
        transaction: the disk is waited for once.
        """
        errand = Errand(work)
        waiting = self._errands if write and self.kind == "sqlite" else deque[Errand[Any]]()
        waiting.append(errand)
        try:
            async with self.turn(write=write):
                while errand in waiting:
                    taken = [waiting.popleft() for _ in range(min(len(waiting), TOGETHER))]
                    await anyio.to_thread.run_sync(self._do, taken, write)
        finally:
            if errand in waiting:  # it has waited in vain
                waiting.remove(errand)
        return errand.outcome()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()
        self._reader.dispose()

    def _do(self, errands: Sequence[Errand[Any]], write: bool) -> None:
        if len(errands) > 1:
            do_together(self.engine, errands)
        else:
            do_alone(self.session(write=write), errands[0], _commit if write else _leave)


async def _wait(turns: anyio.Semaphore) -> None:
    try:
        with anyio.fail_after(TURN_S):
            await turns.acquire()
    except TimeoutError:
        raise DatabaseUnavailable(BUSY) from None


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
            connection.exec_driver_sql("BEGIN")
            return
        if not turn.acquire(timeout=BUSY_S):
            raise DatabaseUnavailable(BUSY)
        entry = connection.connection.record_info
        assert entry is not None
        entry["turn"] = True
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    @event.listens_for(engine, "checkin")
    def _checkin(_connection: object, entry: ConnectionPoolEntry) -> None:
        if (entry.record_info or {}).pop("turn", False):
            turn.release()


def _prepare_postgresql(engine: Engine, *, reader: bool) -> None:
    @event.listens_for(engine, "connect")
    def _connect(connection: psycopg.Connection[Any], _entry: ConnectionPoolEntry) -> None:
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


def migrate(url: str) -> None:
    """Create the tables, or bring them to this version; repeating it changes nothing.

    Raises:
        DatabaseUnavailable: the database cannot be written or reached, or a newer version made it.
    """
    from service.database.migrate import upgrade  # noqa: PLC0415 - Alembic only when needed

    upgrade(url)


def downgrade(url: str, version: str) -> None:
    """Take the tables back to ``version``; ``base`` drops them all."""
    from service.database.migrate import downgrade as down  # noqa: PLC0415

    down(url, version)


async def get_session(request: Request) -> AsyncIterator[Session]:
    """A session per request; use as ``Depends(get_session, scope="function")``.

    With that scope it is committed before the answer leaves, so a client is never told of a row
    that then fails to commit. Requests that only read get a session that cannot write, and whoever
    is bound to a project (``request.state.project``) one that finds nothing of another. What
    ``request.state.witness`` is, if anything, is called last: to log the call with what it changed.
    """
    database = get_database(request)
    write = request.method not in ("GET", "HEAD")
    async with database.turn(write=write):
        session = database.session(write=write)
        restrict(session, request.state.project)
        session.info[_WITNESS] = getattr(request.state, "witness", None)
        try:
            yield session
        except BaseException:
            await _finish(session.close)
            raise
        await _finish(partial(_commit, session))


def get_database(request: Request) -> Database:
    """The database of the application that answers this request."""
    database = request.app.state.database
    assert isinstance(database, Database)
    return database


def get_now(session: Annotated[Session, Depends(get_session, scope="function")]) -> datetime:
    """The database's time at the start of the request's work."""
    return now_of(session)


def _commit(session: Session) -> None:
    witness: Callable[[Session], None] | None = session.info.get(_WITNESS)
    try:
        if witness is not None:
            witness(session)
        session.commit()
    finally:
        session.close()


def _leave(_session: Session) -> None:
    """End what only read; there is nothing to commit."""


async def _finish(end: Callable[[], None]) -> None:
    """End a session in a thread of its own: the others may all be waiting for what it holds."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(end, limiter=anyio.CapacityLimiter(1))


_CLOCK = text("SELECT clock_timestamp()")


def now_of(session: Session) -> datetime:
    """Read the database's clock: aware, UTC.

    SQLite runs in this process, and its clock is this machine's. It is read once the session has
    its turn, so that who has waited to write does not write an earlier time than those before.
    """
    if session.get_bind().dialect.name == "sqlite":
        session.connection()
        return datetime.now(UTC)
    told: datetime = session.execute(_CLOCK).scalar_one()
    return told.astimezone(UTC)


def alone(session: Session, what: str) -> None:
    """Until the end of the transaction, let nobody else be ``alone`` with the same thing.

    SQLite has one writer at a time anyway.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext(what))))


def rows(session: Session, statement: Update, told: Mapping[str, object] | None = None) -> int:
    """Run an update and count the rows that it changed; objects in the session stay as they are.

    ``told`` has what a statement that was built beforehand leaves open.
    """
    silent = {"synchronize_session": False}
    done = session.execute(statement, told, execution_options=silent)
    return cast("CursorResult[object]", done).rowcount


def insert_if_absent(session: Session, table: Table, row: dict[str, Any]) -> bool:
    """Insert a row unless its key is there already; say whether it was inserted."""
    statement = _insertion(session.get_bind().dialect.name, table)
    return session.execute(statement, row).first() is not None


@cache
def _insertion(kind: str, table: Table) -> ReturningInsert[Any]:
    """Kept, because to build it takes several times as long as to run it."""
    insert = sqlite.insert if kind == "sqlite" else postgresql.insert
    first = next(iter(table.primary_key.columns))
    # psycopg gives no row count for this statement, so the row itself is the answer.
    return insert(table).on_conflict_do_nothing().returning(first)
