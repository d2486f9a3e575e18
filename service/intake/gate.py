"""Reads every request's body, whole and in time, before anything else of the service is asked.

So a slow client holds a few bytes and no thread, no database turn and no session.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchmarks import trace_file
from service.errors import BadRequest, Overloaded, ServiceError, TooLarge, TooSlow
from service.intake import document, head
from service.intake.route import DOCUMENT

_RESULT = re.compile(r"/api/v1/jobs/[^/]+/attempts/[^/]+/result")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_LINGER_S = 1.0
"""How long a refused client is listened to, so that it reads the answer before the line ends."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a request's body may cost."""

    body_b: int
    result_b: int
    """For a result, whose traces hold every step of every replicate."""
    held_b: int
    """For the bodies of all requests together."""
    timeout_s: float
    """For a whole body to come."""


class _Gone(Exception):
    """The client left before its body was complete: there is nobody to answer."""


class Gate:
    """ASGI middleware: refuses what no endpoint should see, and parses JSON in the one right way.

    The parsed body is in the scope under `route.DOCUMENT`; endpoints still find the bytes.
    """

    def __init__(self, app: ASGIApp, bounds: Bounds) -> None:
        self._app = app
        self._bounds = bounds
        self.held_b = 0
        """Bytes of all bodies that are being read or worked on."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reader = _Reader(receive, self)
        try:
            body = await self._admit(scope, reader)
            await self._app(scope, _replaying(body, receive), send)
        except _Gone:
            return
        except _Refused as refused:
            await _refuse(refused.error, scope, reader, send)
        finally:
            self.held_b -= reader.held_b

    def hold(self, size: int) -> None:
        """Note ``size`` more bytes of some body.

        Raises:
            Overloaded: all bodies together are too large; nothing was noted.
        """
        if self.held_b + size > self._bounds.held_b:
            raise Overloaded("The service is reading too much at once; try again in a moment.")
        self.held_b += size

    async def _admit(self, scope: Scope, reader: _Reader) -> bytes:
        try:
            return await self._read(scope, reader)
        except ServiceError as error:
            raise _Refused(error) from None

    async def _read(self, scope: Scope, reader: _Reader) -> bytes:
        headers = head.read(scope)
        length = head.length_of(headers)
        limit_b = self._limit_b(scope["path"])
        if length:
            _check_method(scope["method"])
            head.check_media_type(scope["path"], headers)
        if length > limit_b:
            raise TooLarge(_TOO_LARGE)
        try:
            with anyio.fail_after(self._bounds.timeout_s):
                body = await reader.read(limit_b)
        except TimeoutError:
            raise TooSlow("The body did not come in time; send it again, or send less.") from None
        if body:
            _check_method(scope["method"])
            if head.check_media_type(scope["path"], headers):
                scope[DOCUMENT] = document.read(body)
        return body

    def _limit_b(self, path: str) -> int:
        if _RESULT.fullmatch(path):
            return self._bounds.result_b
        return trace_file.LIMIT_B if head.takes_trace(path) else self._bounds.body_b


_TOO_LARGE = "The body is larger than this service accepts; send less at once."


class _Refused(Exception):
    """An error of the gate's own, told apart from whatever the application raises."""

    def __init__(self, error: ServiceError) -> None:
        super().__init__(error.detail)
        self.error = error


class _Reader:
    """Reads one body, and knows what of it is still to come."""

    def __init__(self, receive: Receive, gate: Gate) -> None:
        self.receive = receive
        self._gate = gate
        self.held_b = 0
        self.more = True

    async def read(self, limit_b: int) -> bytes:
        """Read the whole body.

        Raises:
            TooLarge: it goes on beyond ``limit_b`` bytes.
            Overloaded: there is no room for it now.
        """
        parts: list[bytes] = []
        while self.more:
            part = await self._next()
            if self.held_b + len(part) > limit_b:
                raise TooLarge(_TOO_LARGE)
            self._gate.hold(len(part))
            self.held_b += len(part)
            parts.append(part)
        return b"".join(parts)

    async def discard(self) -> None:
        """Read what still comes, and keep nothing."""
        while self.more:
            await self._next()

    async def _next(self) -> bytes:
        message = await self.receive()
        if message["type"] != "http.request":
            raise _Gone
        self.more = message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


def _check_method(method: str) -> None:
    if method not in _WITH_BODY:
        raise BadRequest("This method takes no body; leave it out.")


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Give the body that was read, and then whatever the server still has to say."""
    replayed = False

    async def receive_again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _refuse(error: ServiceError, scope: Scope, reader: _Reader, send: Send) -> None:
    """Answer as the application would, and end the line if a part of the body is still to come.

    A line that is cut while the client still sends would take the answer with it; so it is
    listened to for a moment first.
    """
    handlers = scope["app"].exception_handlers
    response = cast(Response, handlers[ServiceError](Request(scope), error))
    if not reader.more:
        await response(scope, reader.receive, send)
        return
    response.headers["Connection"] = "close"

    async def send_unended(message: Message) -> None:
        await send({**message, "more_body": True} if "body" in message else message)

    await response(scope, reader.receive, send_unended)
    try:
        with anyio.move_on_after(_LINGER_S):
            await reader.discard()
    except _Gone:
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})
