"""Requests over a few open lines at given times: a client that costs little beside the service.

Open loop: a request is due when its time has come, whether the ones before were answered or not,
and what it waits for a line counts as its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_IDLE_S = 5.0
"""A line that was not used for so long is opened anew: the service ends it soon."""


@dataclass(frozen=True, slots=True)
class Due:
    """One request."""

    at_s: float
    """Since the start."""
    kind: str
    port: int
    head: bytes
    body: bytes


@dataclass
class Answers:
    """What came back."""

    took_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """From when a request was due to its whole answer, by kind."""
    due_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """When each of them was due, since the start."""
    statuses: Counter[str] = field(default_factory=Counter)
    """By kind and status; ``cut`` where a line ended without an answer."""
    wall_s: float = 0.0


async def send(requests: Sequence[Due], lines: int) -> Answers:
    """Send every request when it is due, over so many lines a port."""
    queues: dict[int, asyncio.Queue[Due | None]] = defaultdict(asyncio.Queue)
    answers, start_s = Answers(), time.perf_counter()
    ports = sorted({due.port for due in requests})
    tasks = [
        asyncio.create_task(_line(port, queues[port], answers, start_s))
        for port in ports
        for _ in range(lines)
    ]
    for due in requests:
        ahead_s = due.at_s - (time.perf_counter() - start_s)
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
        queues[due.port].put_nowait(due)
    for port in ports:
        for _ in range(lines):
            queues[port].put_nowait(None)
    await asyncio.gather(*tasks)
    answers.wall_s = time.perf_counter() - start_s
    return answers


async def _line(
    port: int, queue: asyncio.Queue[Due | None], answers: Answers, start_s: float
) -> None:
    line: _Open | None = None
    while (due := await queue.get()) is not None:
        try:
            if line is None or time.perf_counter() - line.used_s > _IDLE_S:
                line = await _reopened(line, port)
            line.writer.writelines((due.head, due.body))
            status = await _answer(line.reader)
            line.used_s = time.perf_counter()
        except (OSError, asyncio.IncompleteReadError):
            status, line = "cut", None
        answers.took_s[due.kind].append(time.perf_counter() - start_s - due.at_s)
        answers.due_s[due.kind].append(due.at_s)
        answers.statuses[f"{due.kind} {status}"] += 1
    if line is not None:
        line.writer.close()


@dataclass
class _Open:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    used_s: float


async def _reopened(line: _Open | None, port: int) -> _Open:
    if line is not None:
        line.writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    return _Open(reader, writer, time.perf_counter())


async def _answer(reader: asyncio.StreamReader) -> str:
    head = (await reader.readuntil(_END)).lower()
    at = head.find(_LENGTH)
    if at >= 0:
        size = int(head[at + len(_LENGTH) : head.index(b"\r", at)])
        await reader.readexactly(size)
    return head[9:12].decode()
