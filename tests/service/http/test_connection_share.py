"""No address takes all connections, and who has shown a good token loses none to strangers."""

from __future__ import annotations

import resource
import secrets
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path

import httpx2
import orjson
import pytest
from builders.served import Served, serving, wait_until

from service.auth.principal import network_of
from service.http.connection_share import Strangers
from trials.chaos.replica import environment, free_port

ROOM = 6
OTHER = "127.0.0.2"
HEALTH = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def served(sqlite_url: str, tmp_path: Path) -> Iterator[Served]:
    """A service that asks for tokens and takes few connections."""
    with serving(sqlite_url, access="tokens", state_dir=tmp_path, connections=ROOM) as served:
        yield served


def status_of(line: socket.socket, request: bytes) -> int:
    line.sendall(request)
    answer = HTTPResponse(line)
    answer.begin()
    answer.read()
    return answer.status


def workers(token: str) -> bytes:
    return (
        f"GET /api/v1/workers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )


def flood(served: Served, lines: ExitStack, count: int = 2 * ROOM) -> list[socket.socket]:
    """Open connections that say nothing, and wait until the service knows them."""
    found = [lines.enter_context(served.connect()) for _ in range(count)]
    with served.connect() as last:
        assert status_of(last, HEALTH) == 200
    return found


def ended(line: socket.socket) -> bool:
    return bool(select.select([line], [], [], 2.0)[0]) and not line.recv(1)


def test_an_address_that_takes_all_connections_loses_its_own(served: Served) -> None:
    with ExitStack() as lines:
        silent = flood(served, lines, ROOM)
        other = lines.enter_context(served.connect(source=OTHER))
        assert status_of(other, HEALTH) == 200
        assert ended(silent[0])
        flood(served, lines)
        assert status_of(other, HEALTH) == 200


def test_a_connection_with_a_good_token_is_not_ended_for_strangers(served: Served) -> None:
    token = served.token("read")
    with ExitStack() as lines:
        flood(served, lines)
        mine = lines.enter_context(served.connect())
        assert status_of(mine, workers(token)) == 200
        flood(served, lines)
        assert status_of(mine, workers(token)) == 200


def test_a_worker_that_waits_for_a_job_is_not_ended_for_strangers(served: Served) -> None:
    token = served.token("worker", "w1")
    known = f"Host: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    def call(method: str, path: str, said: object) -> bytes:
        body = orjson.dumps(said)
        head = f"{method} /api/v1{path} HTTP/1.1\r\n{known}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    with ExitStack() as lines:
        mine = lines.enter_context(served.connect())
        assert status_of(mine, call("PUT", "/workers/w1", {"name": "w1"})) == 200
        waiting = lines.enter_context(served.connect())
        claim = {"worker": "w1", "claim_id": secrets.token_hex(16), "wait_s": 3.0}
        waiting.sendall(call("POST", "/leases", claim))
        assert not select.select([waiting], [], [], 1.0)[0]
        flood(served, lines)
        assert status_of(waiting, b"") == 204


def test_where_all_are_known_one_more_is_told_so(served: Served) -> None:
    token = served.token("read")
    with ExitStack() as lines:
        mine = [lines.enter_context(served.connect()) for _ in range(ROOM)]
        assert [status_of(line, workers(token)) for line in mine] == [200] * ROOM
        with served.connect() as one_more:
            answer = HTTPResponse(one_more)
            answer.begin()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
        assert [status_of(line, workers(token)) for line in mine] == [200] * ROOM


def test_who_has_begun_to_ask_is_told_why_it_ends(served: Served) -> None:
    with ExitStack() as lines:
        begun = lines.enter_context(served.connect())
        begun.sendall(HEALTH[:9])
        wait_until(lambda: any(one.conn.trailing_data[0] for one in served.connections()))
        flood(served, lines)
        assert status_of(begun, b"") == 503
        assert ended(begun)


def test_who_takes_no_answer_is_ended_like_who_says_nothing(served: Served) -> None:
    asked = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as lines:
        for _ in range(ROOM):
            lines.enter_context(served.connect(receive_b=4_096)).sendall(asked * 100)
        other = lines.enter_context(served.connect(source=OTHER))
        assert status_of(other, HEALTH) == 200


@contextmanager
def with_few_files(url: str, files: int) -> Iterator[tuple[int, Path]]:
    """A service process that may open so many files; gives its port, and where its log is."""
    log = Path(url.removeprefix("sqlite:///")).with_name("log")
    port = free_port()
    given = environment(THROUGHLINE_DATABASE_URL=url, THROUGHLINE_BACKGROUND="false")
    with log.open("wb") as said:
        command = [sys.executable, "-m", "service", "--port", str(port)]
        process = subprocess.Popen(command, env=given, stderr=said)
    # It asks how many it may open long after its first moment.
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (files, files))
    try:
        wait_until(lambda: b"serving on" in log.read_bytes())
        yield port, log
    finally:
        process.terminate()
        assert process.wait(30) == 0


def test_a_burst_of_connections_leaves_files_for_what_answers(sqlite_url: str) -> None:
    with with_few_files(sqlite_url, 192) as (port, log), ExitStack() as lines:
        for _ in range(800):  # all of them wait before the service lets in the first ones
            line = lines.enter_context(socket.socket())
            line.settimeout(0)
            line.connect_ex(("127.0.0.1", port))
        jobs = f"http://127.0.0.1:{port}/api/v1/jobs"
        assert httpx2.get(jobs, timeout=30).status_code == 200
        assert b"ERROR" not in log.read_bytes()


def test_ipv6_counts_by_what_one_machine_has() -> None:
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("2001:db8::1") == network_of("2001:db8::2") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth0")
    assert network_of("testclient") == "testclient"


class Guest:
    """A connection that remembers whether it was ended."""

    def __init__(self, network: str, *, is_known: bool = False) -> None:
        self.network = network
        self.is_known = is_known
        self.is_ended = False

    def give_way(self) -> None:
        self.is_ended = True


def test_whoever_has_most_loses_the_one_that_was_silent_longest() -> None:
    strangers = Strangers()
    many = [Guest("a") for _ in range(3)]
    others = [Guest("b"), Guest("b"), Guest("c")]
    known = Guest("a", is_known=True)
    for guest in (known, *many, *others):
        strangers.note(guest)
    strangers.note(many[0])
    assert strangers.make_room()
    assert [guest.is_ended for guest in many] == [False, True, False]
    late = many[2]
    late.is_known = True  # its token came since it was counted
    while strangers.make_room():
        pass
    assert [guest.is_ended for guest in (*many, *others)] == [True, True, False, True, True, True]
    assert not known.is_ended
