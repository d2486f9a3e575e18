"""Sends requests to the application as a server would, byte for byte and with nothing put right."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import orjson
from corpus.case import GZIP, JSON, Case
from fastapi import FastAPI
from sqlalchemy import text

from service.app import create_app
from service.models import Base
from service.settings import Settings

HANG_S = 60.0
"""When a request has no answer. Far off, because the machine may be busy with other things: what
an answer may cost is counted in processor time, see `Answer.cpu_s`."""
PREFIX = "/api/v1"
Receive = Callable[[], Awaitable[dict[str, Any]]]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    cpu_s: float = 0.0
    """Processor time of this whole process, from the request's first byte to the answer's last."""

    @property
    def document(self) -> Any:
        """The body, parsed."""
        return orjson.loads(self.body)


class Asker:
    """The application on one database, with a worker that holds an attempt; a context manager."""

    def __init__(self, database_url: str) -> None:
        self.app: FastAPI = create_app(Settings(database_url=database_url, background=False))
        self._runner = asyncio.Runner()
        self._alive = self.app.router.lifespan_context(self.app)
        self.secret = b""
        self._held = {"{job}": "", "{number}": ""}

    def __enter__(self) -> Self:
        self._runner.run(self._alive.__aenter__())
        self._hold()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.run(self._alive.__aexit__(None, None, None))
        self._runner.close()

    def ask(self, case: Case) -> Answer:
        """Send one case.

        Raises:
            TimeoutError: there was no whole answer.
        """
        target = case.target
        headers = case.headers
        if "{job}" in target:
            for hole, value in self._held.items():
                target = target.replace(hole, value)
            if headers in ((JSON,), (GZIP,)):
                headers = (*headers, (b"lease-secret", self.secret))
        return self.send(case.method, target, headers, case.body)

    def send(
        self, method: str, target: str, headers: tuple[tuple[bytes, bytes], ...], body: bytes
    ) -> Answer:
        """Send a request below the API's prefix."""
        began_s = time.process_time()
        sending = self._send(method, PREFIX + target, headers, body)
        answer = self._runner.run(asyncio.wait_for(sending, HANG_S))
        return replace(answer, cpu_s=time.process_time() - began_s)

    def json(self, method: str, target: str, document: Any = None) -> Any:
        """Send a document and give the answer's, which must be a good one."""
        body = b"" if document is None else orjson.dumps(document)
        told = self.send(method, target, (JSON,), body)
        assert told.status < 300, told
        return told.document if told.body else None

    def digest(self) -> str:
        """Names the content of all tables."""
        found = hashlib.sha256()
        with self.app.state.database.reading() as session:
            for table in Base.metadata.sorted_tables:
                rows = session.execute(text(f"SELECT * FROM {table.name}")).all()
                found.update(f"{table.name}{sorted(map(repr, rows))}".encode())
        return found.hexdigest()

    def progress(self) -> Any:
        """What the held attempt's last heartbeat said."""
        return self.json("GET", f"/jobs/{self._held['{job}']}")["attempts"][0]["progress"]

    def _hold(self) -> None:
        self.json("PUT", "/workers/w", {"name": "w"})
        self.json("POST", "/jobs", {"revision": "r", "case": {"workload": "unet"}})
        lease = self.json("POST", "/leases", {"worker": "w", "claim_id": "c" * 32})
        self.secret = lease["secret"].encode()
        self._held = {"{job}": lease["job_id"], "{number}": str(lease["attempt"])}

    async def _send(
        self, method: str, target: str, headers: tuple[tuple[bytes, bytes], ...], body: bytes
    ) -> Answer:
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"testserver"), *headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, _in_parts(body), send)  # type: ignore[arg-type]
        whole = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], dict(sent[0]["headers"]), whole)


def _in_parts(body: bytes) -> Receive:
    """Give the body in pieces, as a network does, and then end the connection."""
    size = 2**20
    parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    waiting = iter(range(len(parts)))

    async def receive() -> dict[str, Any]:
        place = next(waiting, None)
        if place is None:
            return {"type": "http.disconnect"}
        more = place + 1 < len(parts)
        return {"type": "http.request", "body": parts[place], "more_body": more}

    return receive
