"""Clients that do not read what they asked for cost the service little, and others nothing."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path

import pytest
from builders.measured import a_pass, a_replicate, a_result
from builders.served import Served, serving, wait_until
from builders.working import API, Working, bearer
from fastapi import FastAPI, Response
from fastapi.testclient import TestClient
from starlette.types import Message

from benchmarks.contracts import Result, Trace
from service.dashboard.assets import url
from service.http.exchange import PIECE_B, Exchange, Memory

pytestmark = pytest.mark.both_databases

ROOM_B = 5 * 2**20
"""Of which a client has half: one answer of those below, and not two."""
STEPS = 40_000
UNREAD = 24


@pytest.fixture
def served(sqlite_url: str, tmp_path: Path) -> Iterator[Served]:
    """A service that asks for tokens, with room for few large answers."""
    settings = {"access": "tokens", "state_dir": tmp_path, "answers_limit_b": ROOM_B}
    with serving(sqlite_url, **settings) as served:
        yield served


def a_large(worker: Working) -> Result:
    """A result whose traces no packing makes small."""
    drawn = random.Random(1)
    traces = {
        f"{name}_trace": Trace.of(drawn.uniform(0.1, 0.2) for _ in range(STEPS))
        for name in ("step", "stall", "copy", "work")
    }
    timed = a_pass(0.1).model_copy(update=traces)
    case = worker.lease.spec.case.model_copy(update={"preset": "tiny"})
    return a_result(a_replicate(timed, timed)).model_copy(update={"case": case})


@pytest.fixture
def large(served: Served) -> str:
    """The path of a large answer."""
    worker = Working(served)
    return f"{API}/results/{worker.deliver(a_large(worker))}"


def ask(served: Served, path: str, token: str = "", receive_b: int | None = 4_096) -> socket.socket:
    """Ask for something on a connection of its own, and read nothing."""
    line = served.connect(receive_b)
    known = f"Authorization: Bearer {token}\r\n" if token else ""
    line.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{known}\r\n".encode())
    return line


def answer_of(line: socket.socket) -> tuple[int, int]:
    """The status of an answer, and how many bytes its body has."""
    answer = HTTPResponse(line)
    answer.begin()
    return answer.status, len(answer.read())


def unsent_b(served: Served) -> int:
    """What the service holds for each connection beside the answers themselves."""
    return max((one.transport.get_write_buffer_size() for one in served.connections()), default=0)


def test_an_answer_that_nobody_reads_stands_in_no_buffer(served: Served, large: str) -> None:
    token = served.token("read")
    with ask(served, large, token) as line, ask(served, url("plotly.min.js")) as other:
        wait_until(lambda: len([1 for one in served.connections() if one.flow.write_paused]) == 2)
        assert unsent_b(served) <= 3 * PIECE_B
        assert answer_of(line)[0] == 200
        assert answer_of(other)[0] == 200


def test_who_reads_nothing_takes_half_the_room_and_nobody_elses(served: Served, large: str) -> None:
    lazy, other = served.token("read", "lazy"), served.token("read", "other")
    with ExitStack() as lines:
        first = lines.enter_context(ask(served, large, lazy))
        wait_until(lambda: served.answers_b() > 0)
        held_b = served.answers_b()
        assert ROOM_B / 4 < held_b < ROOM_B / 2
        for _ in range(UNREAD):
            with ask(served, large, lazy) as line:
                assert answer_of(line)[0] == 503
        assert served.answers_b() == held_b
        for path, token in ((large, other), (f"{API}/jobs", lazy)):
            with ask(served, path, token) as line:
                assert answer_of(line)[0] == 200
        assert answer_of(first) == (200, held_b)
    wait_until(lambda: served.answers_b() == 0)


def test_who_leaves_gives_the_room_back(served: Served, large: str) -> None:
    token = served.token("read")
    with ask(served, large, token):
        wait_until(lambda: served.answers_b() > 0)
    wait_until(lambda: served.answers_b() == 0)


def test_a_service_that_stops_waits_for_nobody_who_reads_nothing(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as lines, serving(sqlite_url) as served:
        lines.enter_context(ask(served, url("plotly.min.js")))
        wait_until(lambda: any(one.flow.write_paused for one in served.connections()))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_files_take_no_room(served: Served) -> None:
    description = f"{API}/openapi.json"
    TestClient(served.app).get(description)  # takes a second, the first time
    for path in (url("plotly.min.js"), description):
        with ExitStack() as lines:
            for _ in range(UNREAD):
                lines.enter_context(ask(served, path))
            with ask(served, path, receive_b=None) as line:
                assert answer_of(line)[0] == 200
            assert served.answers_b() == 0
            assert unsent_b(served) <= 3 * PIECE_B


def test_what_is_sent_in_pieces_is_the_same(served: Served, large: str) -> None:
    token = served.token("read")
    client = TestClient(served.app)
    whole = client.get(large, headers=bearer(token))
    for receive_b in (4_096, None):
        with ask(served, large, token, receive_b) as line:
            answer = HTTPResponse(line)
            answer.begin()
            assert answer.read() == whole.content
            assert answer.headers["Content-Length"] == str(len(whole.content))
    head = client.head(large, headers=bearer(token))
    assert (head.content, head.headers["Content-Length"]) == (b"", str(len(whole.content)))


@pytest.mark.parametrize(
    ("path", "kind"), [("/runs/1", "text/html"), (f"{API}/jobs", "application/problem+json")]
)
def test_that_there_is_no_room_is_said_as_everything_else(
    client: TestClient, path: str, kind: str
) -> None:
    app, sent = client.app, list[Message]()
    assert isinstance(app, FastAPI)
    memory = app.state.answers = Memory(most_b=1)
    memory.take("somebody", 1)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "headers": [], "method": "GET", "scheme": "http"}
    scope |= {"app": app, "state": {}}
    exchange = Exchange(app, scope, None, send)  # type: ignore[arg-type]
    asyncio.run(Response(b" " * (PIECE_B + 1))(scope, None, exchange.send))  # type: ignore[arg-type]
    headers = dict(sent[0]["headers"])
    assert (sent[0]["status"], headers[b"retry-after"]) == (503, b"2")
    assert headers[b"content-type"].decode().startswith(kind)
    assert len(sent) == 2
    exchange.release()
    assert memory.held_b == 1
