"""Who sends a request is asked before its body is read, and large bodies hold nobody else up."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import orjson
import pytest
from builders.served import Served, serving
from builders.service_hand import result_of
from builders.working import API, Working, bearer

from service.api.routes import ROUTES
from service.auth.permissions import Permission
from service.dashboard import sign_in
from service.http import strict_route
from service.http.exchange import SMALL_B, Memory
from service.http.strict_route import declared
from service.schemas.errors import Overloaded

POOL_B = 4 * 2**20
PROMPT_S = 2.0
JSON = {"Content-Type": "application/json"}
PERMISSIONS = declared([*ROUTES, *sign_in.router.routes])
TAKE_BODIES = sorted(name for name in PERMISSIONS if name.split()[0] in ("POST", "PUT", "PATCH"))


@pytest.fixture
def served(sqlite_url: str, tmp_path: Path) -> Iterator[Served]:
    """A service that asks for tokens, with room for few large bodies."""
    settings = {"access": "tokens", "state_dir": tmp_path, "failures_per_min": 0}
    with serving(sqlite_url, bodies_limit_b=POOL_B, **settings) as served:
        yield served


def begin(
    served: Served, path: str, length_b: int, sent_b: int, source: str = "127.0.0.1", **more: str
) -> socket.socket:
    """Send the head of a POST, and so much of its body."""
    lines = {"Host": "x", "Content-Length": str(length_b), **JSON, **more}
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    line = served.connect(source=source)
    line.sendall(head.encode() + b"\r\n" + b" " * sent_b)
    return line


def status_of(line: socket.socket) -> int:
    """Read the answer's head; nothing in between, such as 100, is passed over."""
    answer = HTTPResponse(line)
    answer.begin()
    return answer.status


def ask(served: Served, method: str, path: str, token: str, body: object, **more: str) -> int:
    """Ask on a connection of its own; gives the status, which must come soon."""
    line = HTTPConnection("127.0.0.1", served.port, timeout=10)
    began_s = time.monotonic()
    line.request(method, f"{API}{path}", orjson.dumps(body), JSON | bearer(token) | more)
    status = line.getresponse().status
    assert time.monotonic() - began_s < PROMPT_S
    line.close()
    return status


def does_its_work(worker: Working, served: Served) -> None:
    """Claim, beat, and deliver a result that is not small."""
    secret = {"Lease-Secret": worker.lease.secret}
    claim = {"worker": "w1", "claim_id": secrets.token_hex(16)}
    assert ask(served, "POST", "/leases", worker.token, claim) == 204
    assert ask(served, "POST", f"{worker.path}/heartbeat", worker.token, {}, **secret) == 200
    result = result_of(worker.lease, log_tail="x" * 60_000).model_dump(mode="json")
    assert ask(served, "POST", f"{worker.path}/result", worker.token, result, **secret) == 201


def test_strangers_with_large_bodies_hold_nobody_up(served: Served) -> None:
    worker, admin = Working(served), served.token("admin")
    whole_b, sent_b = 64 * 2**20 - 1, POOL_B // 4 - 1
    with ExitStack() as lines:
        for _ in range(4):
            line = begin(served, f"{API}{worker.path}/result", whole_b, sent_b)
            lines.enter_context(line)
        does_its_work(worker, served)
        made = {"kind": "read", "name": "wall"}
        assert ask(served, "POST", "/tokens", admin, made) == 201


def answered(served: Served, route: str, length_b: int) -> bytes:
    """The first that is said to a stranger who asks whether he may send so large a body."""
    method, _, path = route.partition(" ")
    kind = "application/x-www-form-urlencoded" if "sign" in path else "application/json"
    lines = f"Host: x\r\nContent-Type: {kind}\r\nExpect: 100-continue\r\nContent-Length: {length_b}"
    with served.connect() as line:
        line.sendall(f"{method} {path} HTTP/1.1\r\n{lines}\r\n\r\n".encode())
        return line.recv(2**16)


def test_a_stranger_is_refused_before_he_has_sent_his_body(served: Served) -> None:
    assert len(TAKE_BODIES) > 20
    for route in TAKE_BODIES:
        small, large = (100, 413) if PERMISSIONS[route] is Permission.OPEN else (401, 401)
        assert answered(served, route, 10).startswith(b"HTTP/1.1 %d " % small), route
        assert answered(served, route, 10**6).startswith(b"HTTP/1.1 %d " % large), route


def test_a_stranger_whose_small_body_does_not_come_is_told_soon(served: Served) -> None:
    began_s = time.monotonic()
    with begin(served, f"{API}/jobs", 10, 9) as line:
        assert status_of(line) == 401
    assert time.monotonic() - began_s < PROMPT_S


def test_what_a_stranger_sends_is_not_parsed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    monkeypatch.setattr(strict_route, "parsed", lambda _, body: parsed.append(len(body)))
    for token in ("", "Bearer tl_read_no"):
        body = b'{"a": "' + b"x" * 2_000_000 + b'"}'
        path = f"{API}/jobs/a/attempts/1/result"
        with begin(served, path, len(body), 0, Authorization=token) as line:
            assert status_of(line) == 401
            with suppress(OSError):  # the service may have ended the line by now
                line.sendall(body)
    assert parsed == []
    assert served.held_b() == 0


def test_a_stranger_may_send_little_even_where_all_may_ask(served: Served) -> None:
    for path in (f"{API}/enrolments/redeem", "/sign-in"):
        for chunk in (SMALL_B + 1, 2**16):
            lines = "Host: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
            with served.connect() as line:
                line.sendall(f"POST {path} HTTP/1.1\r\n{lines}\r\n\r\n{chunk:x}\r\n".encode())
                line.sendall(b" " * chunk)
                assert status_of(line) == 413
    assert served.held_b() == 0


def test_a_refused_small_body_leaves_the_connection_open(served: Served) -> None:
    line = HTTPConnection("127.0.0.1", served.port, timeout=10)
    for path, expected in (("/jobs", 401), ("/nowhere", 404), ("/health", 405)):
        line.request("POST", API + path, b"{}", JSON)
        answer = line.getresponse()
        answer.read()
        assert (answer.status, answer.will_close) == (expected, False)
    line.request("POST", f"{API}/jobs", b" " * (SMALL_B + 1), JSON)
    answer = line.getresponse()
    answer.read()
    assert (answer.status, answer.will_close) == (401, True)


def test_whoever_is_known_holds_half_the_room_at_most(served: Served) -> None:
    worker = Working(served)
    other = served.token("submit", "ci")
    with ExitStack() as lines:
        for number in (1, 2):
            line = begin(served, f"{API}/jobs", 2**21, 2**20, **bearer(other))
            lines.enter_context(line)
            served.wait_until_held(number * (2**20 - SMALL_B), POOL_B)
        with begin(served, f"{API}/jobs", 2**21, 2**20, **bearer(other)) as line:
            assert status_of(line) == 503
        does_its_work(worker, served)


def test_where_nobody_is_asked_each_address_holds_half_the_room(sqlite_url: str) -> None:
    with serving(sqlite_url, bodies_limit_b=POOL_B) as served, ExitStack() as lines:
        large_b = POOL_B // 2 + SMALL_B
        for source in ("127.0.0.1", "127.0.0.2"):
            line = begin(served, f"{API}/jobs", 2**22, large_b, source)
            lines.enter_context(line)
        served.wait_until_held(POOL_B, POOL_B)
        with begin(served, f"{API}/jobs", 2**17, 2**17) as line:
            assert status_of(line) == 503
        with begin(served, f"{API}/jobs", SMALL_B, SMALL_B) as line:
            assert status_of(line) == 400  # spaces alone are no JSON
        lines.close()
        served.wait_until_held(0, 0)
        with begin(served, f"{API}/jobs", 2**17, 2**17) as line:
            assert status_of(line) == 400


def test_room_is_shared_out_and_one_large_thing_always_fits() -> None:
    room = Memory(10)
    room.take("a", 12)
    with pytest.raises(Overloaded, match="The service"):
        room.take("b", 1)
    room.give("a", 12)
    room.take("a", 3)
    with pytest.raises(Overloaded, match="You"):
        room.take("a", 3)
    room.take("b", 5)
    with pytest.raises(Overloaded, match="The service"):
        room.take("c", 3)
    room.give("a", 3)
    room.take("c", 3)
    assert room.held_b == 8
