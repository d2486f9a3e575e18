"""Requests to an application in this process, each of which crosses to its event loop once.

Starlette's test client crosses seven times, so that an answer may be read while it is made. Nothing
here reads one so: who looks at answers in flight asks a real server.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any
from urllib.parse import unquote

import httpx2
from starlette import testclient


def apply() -> None:
    """Ask applications so, from now on in this process."""
    testclient._TestClientTransport.handle_request = _handled  # type: ignore[method-assign]


class _Exchange:
    """One request, and what the application answers."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._over = asyncio.Event()
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.answer = b""

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            await self._over.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body}

    async def send(self, message: Any) -> None:
        assert not self._over.is_set(), "the answer was over"
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
        else:
            self.answer += message.get("body", b"")
            if not message.get("more_body", False):
                self._over.set()


def _handled(transport: Any, request: httpx2.Request) -> httpx2.Response:
    exchange = _Exchange(request.read())

    async def asked() -> None:
        try:
            await transport.app(_scope(transport, request), exchange.receive, exchange.send)
        except Exception:
            if transport.raise_server_exceptions:
                raise

    with ExitStack() as stack:
        stack.enter_context(transport.portal_factory()).call(asked)
    body = b"" if request.method == "HEAD" else exchange.answer
    stream = httpx2.ByteStream(body)
    return httpx2.Response(
        exchange.status, headers=exchange.headers, stream=stream, request=request
    )


def _scope(transport: Any, request: httpx2.Request) -> dict[str, Any]:
    url = request.url
    return {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "path": unquote(url.path),
        "raw_path": url.raw_path.split(b"?", 1)[0],
        "root_path": transport.root_path,
        "scheme": url.scheme,
        "query_string": url.query,
        "headers": [
            (key.lower().encode(), value.encode()) for key, value in request.headers.multi_items()
        ],
        "client": transport.client,
        "server": [url.host, url.port or 80],
        "state": transport.app_state.copy(),
    }
