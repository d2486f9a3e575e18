"""What several requests write may share a transaction: nobody notices but the disk."""

import asyncio
import threading
from functools import partial
from typing import cast

import anyio
import pytest
from sqlalchemy import Connection, Table, event, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from service.database.prepared import inserting
from service.database.session import Database, UnitOfWork, do_alone, do_together, now_of
from service.models import Revision
from service.schemas.errors import Conflict, DatabaseUnavailable

pytestmark = pytest.mark.both_databases


def note(name: str, session: Session) -> str:
    """Write something down."""
    now = now_of(session)
    session.add(Revision(name=name, ordered_at=now, dated=False, first_seen_at=now))
    session.flush()
    return name


def refuse(name: str, session: Session) -> str:
    """Find out too late that it cannot be."""
    note(name, session)
    raise Conflict("no")


def noted(database: Database) -> list[str]:
    with database.reading() as session:
        return sorted(session.scalars(select(Revision.name)))


def test_a_unit_of_work_that_fails_is_undone_alone(database: Database) -> None:
    units = [
        UnitOfWork(partial(note, "a")),
        UnitOfWork(partial(refuse, "b")),
        UnitOfWork(partial(note, "c")),
    ]
    do_together(database.engine, units)
    assert (units[0].outcome(), units[2].outcome()) == ("a", "c")
    with pytest.raises(Conflict):
        units[1].outcome()
    assert noted(database) == ["a", "c"]


def test_a_fault_of_the_database_undoes_a_unit_of_work_alone_too(database: Database) -> None:
    units = [UnitOfWork(partial(note, name)) for name in ("a", "a", "b")]
    do_together(database.engine, units)
    with pytest.raises(Exception, match=r"(?i)unique"):
        units[1].outcome()
    assert noted(database) == ["a", "b"]


def note_plainly(name: str, connection: Connection) -> str:
    """Write something down with a prepared statement."""
    now = now_of(connection)
    row = {"name": name, "ordered_at": now, "dated": False, "first_seen_at": now}
    inserting(cast(Table, Revision.__table__), *row).run(connection, **row)
    return name


def test_work_on_a_bare_connection_is_undone_alone_beside_others(database: Database) -> None:
    units = [
        UnitOfWork(partial(note_plainly, "a"), bare=True),
        UnitOfWork(partial(note_plainly, "a"), bare=True),
        UnitOfWork(partial(note, "b")),
    ]
    do_together(database.engine, units)
    assert (units[0].outcome(), units[2].outcome()) == ("a", "b")
    with pytest.raises(IntegrityError):
        units[1].outcome()
    assert noted(database) == ["a", "b"]


def test_work_on_a_bare_connection_by_itself_is_kept_or_undone(database: Database) -> None:
    async def write_twice() -> None:
        assert await database.write(partial(note_plainly, "a")) == "a"
        with pytest.raises(IntegrityError):
            await database.write(partial(note_plainly, "a"))

    asyncio.run(write_twice())
    assert noted(database) == ["a"]


def test_no_work_of_a_transaction_that_fails_to_commit_is_answered(
    database: Database,
) -> None:
    @event.listens_for(database.engine, "commit")
    def _full(_connection: object) -> None:
        raise OSError("the disk is full")

    units = [UnitOfWork(partial(note, "a")), UnitOfWork(partial(note, "b"))]
    do_together(database.engine, units)
    for unit in units:
        with pytest.raises(OSError, match="full"):
            unit.outcome()
    assert noted(database) == []


def test_whoever_shared_a_transaction_that_was_left_is_told_nothing(sqlite_url: str) -> None:
    """A request is cancelled when the service stops, while its thread goes on."""
    database, begun, go_on = Database(sqlite_url), threading.Event(), threading.Event()

    def linger(session: Session) -> str:
        begun.set()
        go_on.wait(30)
        return note("a", session)

    async def leave() -> None:
        async with database.turn(write=True):
            leader = asyncio.create_task(database.run(linger, write=True))
            await asyncio.sleep(0)
            other = asyncio.create_task(database.run(partial(note, "b"), write=True))
            await asyncio.sleep(0)
        await asyncio.to_thread(begun.wait, 30)
        leader.cancel()
        with pytest.raises(DatabaseUnavailable):
            await other
        go_on.set()

    asyncio.run(leave())
    database.close()


def test_what_waits_to_write_to_sqlite_is_written_together(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    told: list[str] = []

    async def tell(name: str) -> None:
        told.append(await database.run(partial(note, name), write=True))
        assert commits, "it was answered before it was committed"

    async def crowd() -> None:
        async with anyio.create_task_group() as tasks, database.turn(write=True):
            for number in range(10):
                tasks.start_soon(tell, f"r{number}")
            await anyio.sleep(0.1)

    anyio.run(crowd)
    assert len(commits) == 1
    assert sorted(told) == noted(database) == [f"r{number}" for number in range(10)]
    database.close()


def swallow(session: Session) -> str:
    """Go on after SQLite has ended the transaction by itself, as on a full disk."""
    session.connection().exec_driver_sql("ROLLBACK")
    return "swallowed"


@pytest.mark.parametrize("others", [0, 2])
def test_nothing_is_answered_that_sqlite_undid_by_itself(sqlite_url: str, others: int) -> None:
    database = Database(sqlite_url)
    units: list[UnitOfWork[str]] = [
        UnitOfWork(partial(note, f"r{number}")) for number in range(others)
    ]
    units.append(UnitOfWork(swallow))
    if others:
        do_together(database.engine, units)
    else:
        do_alone(database.session(write=True), units[0], write=True)
    for unit in units:
        with pytest.raises((DatabaseUnavailable, DBAPIError)):
            unit.outcome()
    assert noted(database) == []
    database.close()
