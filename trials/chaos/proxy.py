"""A small HTTP proxy that loses answers, sends requests twice and late, and leaves lines open.

What it does to a request depends on its seed and on how many there were before it.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

OPEN_S = 30.0
LATEST_S = 1.5


@dataclass(frozen=True)
class Trouble:
    """Shares of requests with each fault."""

    drop: float = 0.0
    """The service's answer is thrown away, and the connection closed."""
    twice: float = 0.0
    """The request comes once more, up to `LATEST_S` later."""
    late: float = 0.0
    """The request waits a moment."""
    cut: float = 0.0
    """The request never comes, and the connection is closed."""
    half_open: float = 0.0
    """The answer is thrown away, and the connection stays open."""


@dataclass(frozen=True)
class Message:
    """A request or an answer as it was on the wire."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode()


class Proxy:
    """Listens on a port of its own while its ``with`` block lasts; its counts are public."""

    def __init__(self, ports: Sequence[int], seed: int, trouble: Trouble) -> None:
        """``ports``: where replicas of the service listen; each request goes to one of them."""
        self._ports = ports
        self._random = random.Random(seed)
        self.trouble = trouble
        self.statuses: Counter[int] = Counter()
        self.faults: Counter[str] = Counter()
        self.unexpected: list[str] = []
        """Answers that no fault excuses."""
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._tasks: set[asyncio.Task[Any]] = set()  # nobody else holds them: they would be lost

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._client, "127.0.0.1", 0, backlog=512)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        while left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left, timeout=0.1))
        self._loop.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._keep(asyncio.current_task())
        try:
            while (request := await _read(reader)) is not None:
                if not await self._serve(request, writer):
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one end has gone
        except asyncio.CancelledError:
            pass  # the proxy ends, and nobody waits for this line
        finally:
            writer.close()

    async def _serve(self, request: Message, writer: asyncio.StreamWriter) -> bool:
        """Pass one request on; say whether the connection goes on."""
        fate = self._fate()
        self.faults[fate] += 1
        if fate == "late":
            await asyncio.sleep(self._random.uniform(0.0, 0.5))
        if fate == "cut":
            return False
        port = self._random.choice(self._ports)
        if fate == "twice":
            wait_s = self._random.uniform(0.0, LATEST_S)
            self._keep(asyncio.create_task(self._again(request, port, wait_s)))
        answer = await self._ask(request, port)
        if answer is None or fate == "drop":
            return False
        if fate == "half_open":
            await asyncio.sleep(OPEN_S)
            return False
        writer.write(answer.head + answer.body)
        await writer.drain()
        return True

    def _keep(self, task: asyncio.Task[Any] | None) -> None:
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fate(self) -> str:
        trouble, draw = self.trouble, self._random.random()
        for name in ("drop", "twice", "late", "half_open", "cut"):
            draw -= getattr(trouble, name)
            if draw < 0:
                return name
        return "passed"

    async def _again(self, request: Message, port: int, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        await self._ask(request, port)

    async def _ask(self, request: Message, port: int) -> Message | None:
        """The service's answer; None if it has none."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return None
        try:
            writer.write(request.head + request.body)
            await writer.drain()
            answer = await _read(reader)
        except (OSError, asyncio.IncompleteReadError):
            return None
        finally:
            writer.close()
        if answer is not None:
            self.statuses[answer.status] += 1
            if answer.status >= 500 and answer.status != 503:
                self.unexpected.append(f"{answer.status} to {request.path}: {answer.body[:300]!r}")
        return answer


async def _read(reader: asyncio.StreamReader) -> Message | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return Message(head, await reader.readexactly(length))
