"""Framing on a real socket: one reading of each request, no hang, no fault, nothing smuggled."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders.served import Served, serving
from corpus import framing
from corpus.framing import Line

STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
HANG_S = 2.0
WAIT_S = 0.4
LINES = tuple(framing.cases())


@pytest.fixture
def served(sqlite_url: str) -> Iterator[Served]:
    """A service that waits for nobody longer than a moment."""
    with serving(sqlite_url, head_timeout_s=WAIT_S, body_timeout_s=WAIT_S) as served:
        yield served


def test_there_are_many_and_no_two_are_the_same() -> None:
    assert len({(line.raw, line.half_closed) for line in LINES}) == len(LINES) >= 250


def test_every_line_is_read_in_one_way_and_comes_to_an_end(served: Served) -> None:
    before = served.digest()
    refused = [line for line in LINES if not may_change(line)]
    with ThreadPoolExecutor(16) as pool:
        found = [fault for fault in pool.map(lambda line: tried(served, line), refused) if fault]
    assert not found, f"{len(found)} faults:\n" + "\n".join(found)
    assert served.digest() == before
    accepted = [line for line in LINES if may_change(line)]
    found = [fault for fault in (tried(served, line) for line in accepted) if fault]
    assert not found, "\n".join(found)


def may_change(line: Line) -> bool:
    return any(201 in statuses for statuses in line.expected)


def tried(served: Served, line: Line) -> str | None:
    """What is wrong with how a line was answered; None if nothing."""
    began = time.monotonic()
    try:
        said = spoken(served, line)
    except TimeoutError:
        return f"{line.name}: hangs"
    took_s = time.monotonic() - began
    statuses = tuple(int(status) for status in STATUS.findall(said))
    if statuses not in line.expected:
        return f"{line.name}: {statuses}, not {line.expected}: {said[-300:]!r}"
    kind = b"application/problem+json" if b" /api/" in line.raw else b"Content-Type"
    if any(status >= 400 for status in statuses) and kind.lower() not in said.lower():
        return f"{line.name}: no problem document: {said[-300:]!r}"
    if took_s > HANG_S:
        return f"{line.name}: took {took_s:.1f} s"
    return None


def spoken(served: Served, line: Line) -> bytes:
    """Send what the line sends and read until the service ends it."""
    with served.connect() as connection:
        connection.settimeout(HANG_S + 3)
        heard = b""
        try:
            connection.sendall(line.raw)
            if line.half_closed:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(2**16):
                heard += part
        except (BrokenPipeError, ConnectionResetError):
            return heard + rest(connection)
        return heard


def rest(connection: socket.socket) -> bytes:
    """What came before a line was cut."""
    heard = b""
    try:
        while part := connection.recv(2**16):
            heard += part
    except OSError:
        pass
    return heard
