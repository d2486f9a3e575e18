"""Looks at every request's head before anything else, and ends in order what is refused.

A body is read later, by its route: first it is asked who sends it, which the head says. So a
stranger, and a client that sends slowly, hold some KiB and no thread, no database turn, no session.
"""

from __future__ import annotations

from typing import cast

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import ServiceError
from service.http import request_checks
from service.http.body_reader import BODY, Body, Bounds, Gone
from service.http.memory_room import Room


class Gate:
    """ASGI middleware: refuses what no route should see, and gives each request its `Body`.

    An answer that is ready before its request's body has come ends the connection: the rest of
    the body would keep it busy, and might be taken for a further request.
    """

    def __init__(self, app: ASGIApp, bounds: Bounds) -> None:
        self._app = app
        self._bounds = bounds
        self.room = Room(bounds.held_b)
        """For what bodies have beyond the little that each may."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = Body(receive, self.room, self._bounds)
        try:
            await self._answer(scope, body, _ending(body, send))
        except Gone:
            return
        finally:
            body.forget()

    async def _answer(self, scope: Scope, body: Body, send: Send) -> None:
        try:
            body.head = request_checks.read(scope)
        except ServiceError as error:
            refuse = scope["app"].exception_handlers[ServiceError]
            await cast(Response, refuse(Request(scope), error))(scope, body.receive, send)
            return
        scope[BODY] = body
        await self._app(scope, body.receive, send)


def _ending(body: Body, send: Send) -> Send:
    """Send an answer, and end the connection if a part of the body is still to come."""
    ends = False

    async def send_ending(message: Message) -> None:
        nonlocal ends
        if message["type"] == "http.response.start":
            ends = not await body.skip()
            if ends:
                MutableHeaders(scope=message)["Connection"] = "close"
        elif ends and not message.get("more_body", False):
            await send({**message, "more_body": True})
            await body.linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await send(message)

    return send_ending
