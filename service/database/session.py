"""Sessions: a transaction begins with its first statement and ends before any answer leaves.

Requests take turns. On SQLite those that write share a transaction, and so one wait for the disk.
The database's time is the only wall clock.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from typing import Any, Generic, Protocol, TypeVar, cast

import anyio
import anyio.to_thread
from sqlalchemy import (
    Connection,
    CursorResult,
    DateTime,
    Engine,
    PoolProxiedConnection,
    Select,
    Table,
    Update,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from service.database.engine import make_engine, parse
from service.database.prepared import Prepared, Runner, connection_of, new_row
from service.models.columns import Base
from service.models.project_filter import restrict
from service.schemas.errors import BUSY, DatabaseUnavailable, Invalid, NotFound

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
Row = TypeVar("Row", bound=Base)
Witness = Callable[[Session], None]
"""Called last before a commit, to log a call with what it changed."""

TURN_S = 20.0
"""How long a request waits before the database lets it in."""
GROUP = 16
"""Units of work that share a transaction at most; others wait until it is over."""
_WITNESS = "witness"
_SNAPSHOT = text("SELECT pg_current_snapshot()::text")
"""It names what has ended and what is under way, of those that write."""
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_MADE = count()
"""Rows that this process has named."""


class Database:
    """The engine of one process, and its sessions.

    ``concurrent`` sessions of each kind are open at once for requests, and one that writes on
    SQLite; more would only wait for each other inside the database.
    """

    def __init__(self, url: str, concurrent: int = 4) -> None:
        self.url = parse(url)
        self.engine = make_engine(self.url)
        self._reader = make_engine(self.url, reader=True)
        self._watcher: PoolProxiedConnection | None = None
        """Kept by `version`: SQLite counts for each connection what others have committed."""
        self._threads = ThreadPoolExecutor(2 * concurrent, "database")
        """One for each turn to read or write."""
        self._waiting: deque[UnitOfWork[Any]] = deque()
        """Work that waits for the turn to write to SQLite."""
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

    @asynccontextmanager
    async def request_session(
        self, *, write: bool, project: str | None, witness: Witness | None
    ) -> AsyncIterator[Session]:
        """Open a session for one request when its turn comes; commit it at the end.

        It finds nothing of another project than ``project``, if that is given.
        """
        async with self.turn(write=write):
            session = self.session(write=write)
            restrict(session, project)
            session.info[_WITNESS] = witness
            try:
                yield session
            except BaseException:
                await _finish(session.close)
                raise
            await _finish(partial(_commit, session))

    async def run(self, work: Callable[[Session], T], *, write: bool) -> T:
        """Do ``work`` in a session of its own, in a thread, when its turn comes.

        Whoever has the turn to write to SQLite also does the work of others that wait for it, in
        the same transaction: the disk is waited for once (group commit).
        """
        return await self._in_turn(UnitOfWork(work), write=write)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Do ``work`` as `run` does, on a bare connection: for prepared statements alone."""
        return await self._in_turn(UnitOfWork(work, bare=True), write=True)

    async def _in_turn(self, unit: UnitOfWork[T], *, write: bool) -> T:
        waiting = self._waiting if write and self.kind == "sqlite" else deque[UnitOfWork[Any]]()
        waiting.append(unit)
        try:
            async with self.turn(write=write):
                while unit in waiting:
                    group = [waiting.popleft() for _ in range(min(len(waiting), GROUP))]
                    await self._in_thread(partial(self._do, group, write))
        finally:
            if unit in waiting:  # its turn never came
                waiting.remove(unit)
        return unit.outcome()

    async def _in_thread(self, do: Callable[[], None]) -> None:
        # anyio's own threads hand over through a queue in Python: three times the time.
        with anyio.CancelScope(shield=True):
            await asyncio.get_running_loop().run_in_executor(self._threads, do)

    async def version(self) -> str:
        """Return a text that is another one once anybody, also another process, has committed.

        It reads no table. Call it once at a time.
        """
        if self.kind == "sqlite":
            return await anyio.to_thread.run_sync(self._data_version)
        return await self.run(lambda session: str(session.scalar(_SNAPSHOT)), write=False)

    def _data_version(self) -> str:
        self._watcher = self._watcher or self._reader.raw_connection()
        try:
            return str(self._watcher.cursor().execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error as error:  # of the driver's own connection, so not SQLAlchemy's
            raise DatabaseUnavailable(str(error)) from error

    def close(self) -> None:
        """Close all connections."""
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        self.engine.dispose()
        self._reader.dispose()

    def _do(self, group: Sequence[UnitOfWork[Any]], write: bool) -> None:
        if len(group) > 1 or group[0].bare:
            do_together(self.engine, group)
        else:
            do_alone(self.session(write=write), group[0], write=write)


async def _wait(turns: anyio.Semaphore) -> None:
    try:
        with anyio.fail_after(TURN_S):
            await turns.acquire()
    except TimeoutError:
        raise DatabaseUnavailable(BUSY) from None


async def _finish(end: Callable[[], None]) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(end, limiter=anyio.CapacityLimiter(1))


def _commit(session: Session) -> None:
    witness: Witness | None = session.info.get(_WITNESS)
    try:
        if witness is not None:
            witness(session)
        session.commit()
    finally:
        session.close()


class Transaction(Protocol):
    """What a unit of work ends: a session, a transaction or a savepoint."""

    def commit(self) -> None:
        """Keep what was done."""

    def rollback(self) -> None:
        """Undo it."""


class UnitOfWork(Generic[T]):
    """What one request wants done in a session, and what came of it.

    Several may share one transaction; each is undone alone if it fails. None is answered before
    the transaction is committed.
    """

    def __init__(self, work: Callable[[Any], T], *, bare: bool = False) -> None:
        self.bare = bare
        """True if it takes a connection, and not a session."""
        self.over = False
        """True once its transaction has ended: before, nobody may be told the outcome."""
        self._work = work
        self._result: T | None = None
        self._fault: Exception | None = None

    def do(self, on: Runner, transaction: Transaction, *, write: bool = True) -> None:
        """Do the work and keep its result; a fault undoes what was done in the transaction."""
        try:
            self._result = self._work(on)
            if write:
                transaction.commit()
        except Exception as fault:
            transaction.rollback()
            self._fault = fault

    def fail(self, fault: Exception) -> None:
        """Note that nothing came of it."""
        self._fault = fault

    def outcome(self) -> T:
        """Return the result of the work, or raise its fault.

        Raises:
            DatabaseUnavailable: whoever did it was stopped, and its outcome is not known.
        """
        if not self.over:
            raise DatabaseUnavailable(BUSY)
        if self._fault is not None:
            raise self._fault
        return cast(T, self._result)


def do_together(engine: Engine, units: Sequence[UnitOfWork[Any]]) -> None:
    """Do units one after the other in one transaction, each in a savepoint of its own."""
    try:
        with engine.connect() as connection, connection.begin() as whole:
            if len(units) == 1:
                units[0].do(connection, whole)
            else:
                for unit in units:
                    _do_within(connection, unit)
    except Exception as fault:  # not one of theirs: the database is away, or its disk is full
        for unit in units:
            unit.fail(fault)
    for unit in units:
        unit.over = True


def _do_within(connection: Connection, unit: UnitOfWork[Any]) -> None:
    if unit.bare:
        unit.do(connection, connection.begin_nested())
        return
    # Its own session, so that none sees what another has read.
    with Session(
        connection, expire_on_commit=False, join_transaction_mode="create_savepoint"
    ) as session:
        unit.do(session, session)


def do_alone(session: Session, unit: UnitOfWork[Any], *, write: bool) -> None:
    """Do one unit in a transaction of its own."""
    with session:
        unit.do(session, session, write=write)
    unit.over = True


_CLOCK = Prepared(text("SELECT clock_timestamp() AS now").columns(now=DateTime(timezone=True)))


def now_of(on: Runner) -> datetime:
    """Read the database's clock: aware, UTC.

    SQLite runs in this process, and its clock is this machine's. It is read once the session has
    its turn, so that who has waited to write does not write an earlier time than those before.
    """
    connection = connection_of(on)
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    now: datetime = _CLOCK.run(connection)[0][0]
    return now.astimezone(UTC)


def new_id(now: datetime, position: int = 0) -> str:
    """Name a row, so that rows sort in the order in which this process made them.

    32 hexadecimal digits: milliseconds, place among those of the moment, a count, 40 random bits.
    """
    milliseconds = int(now.timestamp() * 1_000)
    place = next(_MADE) & 0xFFFFFF
    return f"{milliseconds:012x}{position:04x}{place:06x}{secrets.token_hex(5)}"


def check_time(name: str, value: datetime) -> None:
    """Refuse a time that no database and no chart can hold.

    Raises:
        Invalid: it lies before 1990 or after 2199.
    """
    if not _EARLIEST <= value < _LATEST:
        raise Invalid(f"{name} must lie between the years 1990 and 2200.")


def alone(session: Session, what: str) -> None:
    """Until the end of the transaction, let nobody else be ``alone`` with the same thing.

    SQLite has one writer at a time anyway.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext(what))))


def found(session: Session, table: type[Row], key: str | None, **options: Any) -> Row:
    """Get a row that the API lists under its table's name; ``options`` are those of `Session.get`.

    Raises:
        NotFound: there is none of that key.
    """
    row = session.get(table, key, **options)
    if row is None:
        listed = table.__tablename__
        one = listed if listed == "series" else listed.removesuffix("s")
        raise NotFound(f"There is no such {one}; GET /api/v1/{listed} lists them.")
    return row


def pairs(session: Session, query: Select[K, V]) -> dict[K, V]:
    """Read rows of two columns: the second by the first."""
    return {key: value for key, value in session.execute(query)}  # noqa: C416 - dict() cannot type rows


def rows(
    session: Session, statement: Update, parameters: Mapping[str, object] | None = None
) -> int:
    """Run an update and count the rows that it changed; objects in the session stay as they are."""
    silent = {"synchronize_session": False}
    result = session.execute(statement, parameters, execution_options=silent)
    return cast("CursorResult[object]", result).rowcount


def insert_if_absent(on: Runner, table: Table, row: dict[str, Any], key: str = "") -> bool:
    """Insert a row unless its key is there already; say whether it was inserted.

    The key is any of the table's, or the unique column that ``key`` names.
    """
    kind = connection_of(on).dialect.name
    return bool(_insertion(kind, table, tuple(row), key).run(on, **row))


@cache
def _insertion(kind: str, table: Table, columns: tuple[str, ...], key: str) -> Prepared:
    insert = sqlite.insert if kind == "sqlite" else postgresql.insert
    first = next(iter(table.primary_key.columns))
    values = new_row(table, columns)
    # psycopg gives no row count for this statement, so the row itself is the answer.
    target = [key] if key else None
    made = insert(table).values(values).on_conflict_do_nothing(index_elements=target)
    return Prepared(made.returning(first))
