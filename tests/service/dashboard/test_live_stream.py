"""The stream that tells open pages of changes: what it says, to how many, and when it ends."""

from __future__ import annotations

import gzip
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from unittest.mock import AsyncMock

import anyio
import pytest
from builders import service_program
from builders.served import Served, serving, wait_until
from fastapi import routing

from service.dashboard import live_stream
from service.dashboard.live_stream import LiveStreams
from service.database.session import Database, now_of
from service.history import revisions
from service.schemas.errors import DatabaseUnavailable, Overloaded


def commit(database: Database, name: str) -> None:
    with database.writing() as session:
        revisions.register(session, name, None, now_of(session))


@contextmanager
def following(port: int, query: str = "?pace_s=0") -> Iterator[HTTPResponse]:
    """Open a stream; it ends with the block."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as line:
        line.request("GET", f"/live{query}", headers={"Accept-Encoding": "gzip"})
        yield line.getresponse()


def read_until(stream: HTTPResponse, wanted: bytes) -> None:
    while (line := stream.readline()) != wanted:
        assert line, f"the stream ended before {wanted!r}"


@pytest.mark.both_databases
def test_what_another_process_commits_is_another_version(database: Database) -> None:
    async def versions() -> None:
        before = await database.version()
        commit(elsewhere, "r1")
        between = await database.version()
        commit(elsewhere, "r2")
        assert len({before, between, await database.version()}) == 3

    with closing(Database(database.url.render_as_string(hide_password=False))) as elsewhere:
        anyio.run(versions)


def test_looks_alone_make_no_other_version(sqlite_url: str) -> None:
    async def versions() -> set[str]:
        found = [await database.version() for _ in range(3)]
        with database.reading() as session:
            now_of(session)
        return {*found, await database.version()}

    with closing(Database(sqlite_url)) as database:
        assert len(anyio.run(versions)) == 1


def test_one_look_serves_all_streams() -> None:
    database = AsyncMock(Database)
    database.version.return_value = "1"

    async def hundred() -> None:
        streams = LiveStreams(database, 100)
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(streams.changes)

    anyio.run(hundred)
    assert database.version.await_count == 1


def test_a_database_that_is_away_is_news_with_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_stream, "_LOOK_S", 0)
    database = AsyncMock(Database)
    database.version.side_effect = ["1", DatabaseUnavailable("away"), DatabaseUnavailable("away")]

    async def looks() -> list[int]:
        streams = LiveStreams(database, 1)
        return [await streams.changes() for _ in range(3)]

    assert anyio.run(looks) == [1, 2, 3]


def test_a_stream_says_changed_at_once_and_after_each_commit(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_stream, "_LOOK_S", 0)
    with serving(sqlite_url) as served, following(served.port) as stream:
        assert stream.getheader("content-type", "").startswith("text/event-stream")
        assert stream.getheader("content-encoding") is None
        for number in range(3):
            read_until(stream, b"data: changed\n")
            commit(served.app.state.database, f"r{number}")


def test_a_stream_without_news_shows_that_it_is_alive(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert routing._PING_INTERVAL == 15
    monkeypatch.setattr(routing, "_PING_INTERVAL", 0.01)
    with serving(sqlite_url) as served, following(served.port, "?pace_s=60") as stream:
        assert stream.readline() == b": ping\n"


def test_a_stream_too_many_is_refused_until_another_client_leaves(sqlite_url: str) -> None:
    with serving(sqlite_url, connections=7) as served:
        with following(served.port) as first:
            assert first.status == 200
            with following(served.port) as second:
                assert second.status == 503
                assert b"Too many pages listen" in gzip.decompress(second.read())
        wait_until(lambda: has_room(served))
        with following(served.port) as third:
            assert third.status == 200


def has_room(served: Served) -> bool:
    try:
        with served.app.state.live.place():
            return True
    except Overloaded:
        return False


def test_a_stream_ends_when_its_time_is_over(sqlite_url: str) -> None:
    with serving(sqlite_url) as served, following(served.port, "?pace_s=0&wait_s=0.1") as stream:
        assert stream.read().startswith(b"data: changed\n")


@pytest.mark.parametrize("query", ["?pace_s=-1", "?pace_s=61", "?wait_s=601", "?wait_s=nan"])
def test_a_stream_has_bounds(sqlite_url: str, query: str) -> None:
    with serving(sqlite_url) as served, following(served.port, query) as stream:
        assert stream.status == 422


def test_an_open_stream_ends_in_order_when_the_service_stops(sqlite_url: str) -> None:
    with service_program.serving(sqlite_url) as (address, process):
        with following(int(address.rpartition(":")[2])) as stream:
            read_until(stream, b"data: changed\n")
            process.send_signal(signal.SIGTERM)
            stream.read()  # a line that is cut off would be an IncompleteRead
        assert process.wait(30) == 0
