"""What one client may take of the service's time and room, so that others find some left."""

import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse

import httpx2
import orjson
import pytest
from builders.served import Served, serving, wait_until

from service.dashboard.assets import url

JSON = b"Host: x\r\nContent-Type: application/json\r\n"
POST = b"POST /api/v1/submissions HTTP/1.1\r\n" + JSON
GET = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@pytest.fixture
def slow(sqlite_url: str) -> Iterator[Served]:
    """A service that is patient, with one thread for the database."""
    with serving(sqlite_url, threads=1, head_timeout_s=30, body_timeout_s=30) as served:
        yield served


def heard(connection: socket.socket) -> bytes:
    """All that the service says until it ends the connection."""
    said = b""
    try:
        while part := connection.recv(2**16):
            said += part
    except ConnectionResetError:
        pass
    return said


def answer(connection: socket.socket) -> int:
    """Read one whole answer and give its status."""
    told = HTTPResponse(connection)
    told.begin()
    told.read()
    return told.status


def status_of(served: Served) -> int:
    return httpx2.get(f"http://127.0.0.1:{served.port}/api/v1/health", timeout=5).status_code


def test_clients_that_send_slowly_hold_no_thread_and_no_database(slow: Served) -> None:
    with ExitStack() as open_lines:
        for number in range(120):
            line = open_lines.enter_context(slow.connect())
            begun = POST + b"Content-Length: 1000\r\n\r\n{" if number % 2 else POST[:30]
            line.sendall(begun)
        for _ in range(5):
            assert status_of(slow) == 200


def test_a_head_that_drips_is_cut_off_and_said_so(sqlite_url: str) -> None:
    with serving(sqlite_url, head_timeout_s=0.5) as served, served.connect() as line:
        for byte in GET:  # a byte now and then does not begin the time anew
            if select.select([line], [], [], 0.2)[0]:
                break
            line.sendall(bytes([byte]))
        else:
            pytest.fail("the whole head could be dripped")
        assert STATUS.findall(heard(line)) == [b"408"]


def test_a_body_that_drips_is_cut_off_and_said_so(sqlite_url: str) -> None:
    with serving(sqlite_url, body_timeout_s=0.5) as served, served.connect() as line:
        line.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(50):
            if select.select([line], [], [], 0.2)[0]:
                break
            line.sendall(b"1\r\n \r\n")
        else:
            pytest.fail("a body could be dripped without an end")
        said = heard(line)
    assert STATUS.findall(said) == [b"408"]
    assert b'"type":"too-slow"' in said


def test_the_time_for_a_head_runs_only_while_one_is_begun(slow: Served) -> None:
    with slow.connect() as line:
        wait_until(lambda: len(slow.connections()) == 1)
        (connection,) = slow.connections()
        assert connection.awaits_head
        line.sendall(GET)
        assert answer(line) == 200
        wait_until(lambda: not connection.awaits_head)  # idle now, for which there is more time
        line.sendall(GET[:5])
        wait_until(lambda: connection.awaits_head)
        line.sendall(GET[5:])
        assert answer(line) == 200
        wait_until(lambda: not connection.awaits_head)


def test_a_connection_that_stays_idle_is_ended_without_a_word(sqlite_url: str) -> None:
    with serving(sqlite_url, idle_timeout_s=1) as served, served.connect() as line:
        line.sendall(GET)
        assert STATUS.findall(heard(line)) == [b"200"]


def test_a_client_that_does_not_take_its_answers_is_cut_off(sqlite_url: str) -> None:
    asked = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        serving(sqlite_url, answer_timeout_s=0.3) as served,
        served.connect(receive_b=4_096) as line,
    ):
        size = len(httpx2.get(f"http://127.0.0.1:{served.port}/api/v1/openapi.json").content)
        line.sendall(asked * 300)
        served.wait_until_alone()
        assert len(heard(line)) < 300 * size


def test_an_answer_that_is_taken_drop_by_drop_is_cut_off(sqlite_url: str) -> None:
    asked = b"GET /assets/0/plotly.min.js HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        serving(sqlite_url, answer_timeout_s=1.0) as served,
        served.connect(receive_b=4_096) as line,
    ):
        line.sendall(asked.replace(b"/assets/0/plotly.min.js", url("plotly.min.js").encode()))
        wait_until(lambda: bool(served.connections()))
        until_s = time.monotonic() + 10
        while served.connections():
            assert line.recv(4_096), "an answer of 5 MB could be dripped"
            assert time.monotonic() < until_s
            time.sleep(0.02)


def test_a_claim_of_a_client_that_may_be_gone_is_answered_at_once(sqlite_url: str) -> None:
    with serving(sqlite_url) as served, served.connect() as line:
        service = f"http://127.0.0.1:{served.port}/api/v1"
        assert httpx2.put(f"{service}/workers/w", json={"name": "w"}).status_code == 200
        body = orjson.dumps({"worker": "w", "claim_id": "a" * 32, "wait_s": 30})
        line.sendall(b"POST /api/v1/leases HTTP/1.1\r\n" + JSON)
        line.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert not select.select([line], [], [], 0.5)[0]
        line.shutdown(socket.SHUT_WR)
        assert STATUS.findall(heard(line)) == [b"204"]
        spec = {"revision": "r", "case": {"workload": "unet"}}
        assert httpx2.post(f"{service}/jobs", json=spec).status_code == 201
        assert httpx2.get(f"{service}/jobs").json()["items"][0]["state"] == "queued"


def test_a_large_answer_reaches_a_client_that_has_closed_its_side(sqlite_url: str) -> None:
    with serving(sqlite_url) as served, served.connect() as line:
        path = url("plotly.min.js")
        size = len(httpx2.get(f"http://127.0.0.1:{served.port}{path}").content)
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        line.shutdown(socket.SHUT_WR)
        assert len(heard(line)) > size


def test_a_refused_upload_can_read_why(slow: Served) -> None:
    with slow.connect() as line:
        size = 40 * 2**20
        line.sendall(POST + b"Content-Length: %d\r\n\r\n" % size + b" " * size)
        assert STATUS.findall(heard(line)) == [b"413"]
