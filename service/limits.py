"""Refuses a request body that is too large, before anyone has read it whole."""

from __future__ import annotations

import re

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import TOO_LARGE, problem

_RESULT = re.compile(r"/api/v1/jobs/[^/]+/attempts/[^/]+/result")


class BodyLimit:
    """ASGI middleware: 413 for a body over its limit in bytes, whatever its headers say.

    Results have a limit of their own; everything else is small.
    """

    def __init__(self, app: ASGIApp, limit_b: int, result_limit_b: int) -> None:
        self._app = app
        self._limit_b = limit_b
        self._result_limit_b = result_limit_b

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting what it sends."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit_b = self._result_limit_b if _RESULT.fullmatch(scope["path"]) else self._limit_b
        if self._announced(scope) > limit_b:
            refusal = problem(413, "too-large", "Request too large", TOO_LARGE)
            await refusal(scope, receive, send)
            return
        received = 0

        async def counting() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit_b:
                raise HTTPException(413, TOO_LARGE)
            return message

        await self._app(scope, counting, send)

    def _announced(self, scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                return int(value[:20])
        return 0
