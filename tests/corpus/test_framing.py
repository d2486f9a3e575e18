"""Framing on a real socket: one reading of each request, no hang, no fault, nothing smuggled."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders.served import Served, serving
from corpus import framing
from corpus.framing import Line

STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
HANG_S = 20.0
"""Far above the service's deadlines below, because the machine may be busy with other things."""
DEADLINE_S = 1.0
PATIENT_S = 60.0
LINES = tuple(framing.cases())


@pytest.fixture
def impatient(sqlite_url: str) -> Iterator[Served]:
    """A service that waits for nobody longer than a moment."""
    with serving(sqlite_url, head_timeout_s=DEADLINE_S, body_timeout_s=DEADLINE_S) as served:
        yield served


@pytest.fixture
def patient(sqlite_url: str) -> Iterator[Served]:
    """A service on the same database that would rather wait than answer wrongly."""
    with serving(sqlite_url, head_timeout_s=PATIENT_S, body_timeout_s=PATIENT_S) as served:
        yield served


def test_there_are_many_and_no_two_are_the_same() -> None:
    assert len({(line.raw, line.half_closed) for line in LINES}) == len(LINES) >= 250


def test_every_line_is_read_in_one_way_and_comes_to_an_end(
    patient: Served, impatient: Served
) -> None:
    def attempt(line: Line) -> str | None:
        return tried(impatient if is_late(line) else patient, line)

    before = patient.digest()
    refused = [line for line in LINES if not may_change(line)]
    with ThreadPoolExecutor(16) as pool:
        found = [fault for fault in pool.map(attempt, refused) if fault]
    assert not found, f"{len(found)} faults:\n" + "\n".join(found)
    assert patient.digest() == before
    accepted = [line for line in LINES if may_change(line)]
    found = [fault for fault in map(attempt, accepted) if fault]
    assert not found, "\n".join(found)


def is_late(line: Line) -> bool:
    return any(408 in statuses for statuses in line.expected)


def may_change(line: Line) -> bool:
    return any(201 in statuses for statuses in line.expected)


def tried(served: Served, line: Line) -> str | None:
    """What is wrong with how a line was answered; None if nothing."""
    try:
        said = spoken(served, line)
    except TimeoutError:
        return f"{line.name}: hangs"
    statuses = tuple(int(status) for status in STATUS.findall(said))
    if statuses not in line.expected:
        return f"{line.name}: {statuses}, not {line.expected}: {said[-300:]!r}"
    kind = b"application/problem+json" if b" /api/" in line.raw else b"Content-Type"
    if any(status >= 400 for status in statuses) and kind.lower() not in said.lower():
        return f"{line.name}: no problem document: {said[-300:]!r}"
    return None


def spoken(served: Served, line: Line) -> bytes:
    """Send what the line sends and read until the service ends it."""
    with served.connect() as connection:
        connection.settimeout(HANG_S)
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
