"""Sends answers no faster than clients take them, and bounds what the unsent rest may hold.

uvicorn takes an answer whole, and keeps whatever the client does not take: two dozen clients that
read nothing cost a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import anyio.lowlevel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.principal import client_of
from service.errors import Overloaded, ServiceError
from service.http.memory_room import Room

PIECE_B = 2**16
"""What is given to the server at once; a smaller answer takes no room."""


class InPieces(Response):
    """An answer that is the same bytes for everybody, such as a file: it takes no room."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for message in _pieces({"type": "http.response.body", "body": self.body}):
            await send(message)
            await anyio.lowlevel.checkpoint()


class Sending:
    """ASGI middleware: sends large answers piece by piece, if there is room for them.

    A client may have half of the room. An answer for which there is none is 503.
    """

    def __init__(self, app: ASGIApp, most_b: int) -> None:
        self._app = app
        self.room = Room(most_b)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(self.room, scope, send)
        try:
            await self._app(scope, receive, answer.send)
        finally:
            answer.forget()


class _Answer:
    """One answer, of which nothing is sent before there is room for it."""

    def __init__(self, room: Room, scope: Scope, send: Send) -> None:
        self._room = room
        self._scope = scope
        self._send = send
        self._start: Message | None = None
        self._refused = False
        self._client = ""
        self._held_b = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None:
            await self._begin(self._start, len(message.get("body", b"")))
            self._start = None
        if self._refused:
            return
        for piece in _pieces(message):
            await self._send(piece)
            await anyio.lowlevel.checkpoint()

    def forget(self) -> None:
        """Give back the room that the answer took."""
        if self._held_b:
            self._room.give(self._client, self._held_b)

    async def _begin(self, start: Message, size_b: int) -> None:
        if size_b > PIECE_B:
            client = client_of(Request(self._scope))
            try:
                self._room.take(client, size_b)
            except Overloaded as error:
                self._refused = True
                await self._refuse(error)
                return
            self._client, self._held_b = client, size_b
        await self._send(start)

    async def _refuse(self, error: Overloaded) -> None:
        handler = self._scope["app"].exception_handlers[ServiceError]
        answer = cast(Response, handler(Request(self._scope), error))
        start = {"type": "http.response.start", "status": answer.status_code}
        await self._send({**start, "headers": answer.raw_headers})
        await self._send({"type": "http.response.body", "body": bytes(answer.body)})


def _pieces(message: Message) -> Iterator[Message]:
    """A part of an answer in messages of `PIECE_B` at most; what is no body as it is."""
    body = message.get("body", b"")
    if len(body) <= PIECE_B:
        yield message
        return
    starts = range(0, len(body), PIECE_B)
    for at in starts:
        more = at != starts[-1] or message.get("more_body", False)
        yield {**message, "body": body[at : at + PIECE_B], "more_body": more}
