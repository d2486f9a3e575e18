"""One request's body: it is read when its route asks for it, whole, in time and within bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass

import anyio
import anyio.to_thread
from starlette.types import Message, Receive, Scope

from benchmarks import trace_file
from service.errors import TooLarge, TooSlow
from service.http import request_checks, strict_json
from service.http.memory_room import Room

BODY = "throughline.body"
"""Where in the scope the body is."""
DOCUMENT = "throughline.document"
"""Where in the scope the parsed body is."""
SMALL_B = 16 * 2**10
"""What a body may have without room that others might hold: heartbeats and claims have some
hundred bytes. All connections together hold no more than 64 MiB of such."""
_PARSED_ASIDE_B = 2**18
"""A larger document is parsed in a thread, so that others are answered meanwhile."""
_SILENCE_S = 1.0
"""How long a refused client may pause. As long its answer waits for a small body."""
_LINGER_S = 10.0
"""How long a refused client is listened to, so that it reads the answer before the line ends."""
_RESULT = re.compile(r"/api/v1/jobs/[^/]+/attempts/[^/]+/result")
_TOO_LARGE = "The body is larger than this service accepts; send less at once."


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits on a request's body."""

    body_b: int
    result_b: int
    """For a result, whose traces hold every step of every replicate."""
    held_b: int
    """For what all bodies together have beyond `SMALL_B` each."""
    timeout_s: float
    """For a whole body to come."""

    def of(self, path: str) -> int:
        """Return the largest size of a body that is sent to ``path``, in bytes."""
        if _RESULT.fullmatch(path):
            return self.result_b
        return trace_file.LIMIT_B if request_checks.takes_trace(path) else self.body_b


class Gone(Exception):
    """The client left before its body was complete: there is nobody to answer."""


class Body:
    """The body of one request, and what of it is still to come."""

    def __init__(self, receive: Receive, room: Room, bounds: Bounds) -> None:
        self._receive = receive
        self._room = room
        self._bounds = bounds
        self._client = ""
        self._held_b = 0
        self._whole: bytes | None = None
        self.head: request_checks.Headers | None = None
        """The request's headers, once they are known to be sound."""
        self.more = True
        """Whether something may still come."""

    async def read(self, scope: Scope, client: str, *, stranger: bool) -> None:
        """Read the whole body; if it is JSON, put the document into the scope as `DOCUMENT`.

        A ``stranger`` has shown nothing that vouches for him. He may send `SMALL_B` and no more:
        what he holds takes no room from those who are known.

        Raises:
            BadRequest, WrongMediaType, TooLarge: it is none that this call takes.
            TooSlow: it did not come in time.
            Overloaded: there is no room for it now.
            MalformedDocument: it is no JSON that can be read in one way.
            Gone: the client left.
        """
        assert self.head is not None
        limit_b = SMALL_B if stranger else self._bounds.of(scope["path"])
        length_b = request_checks.length_of(self.head)
        if length_b:
            request_checks.check_media_type(scope["path"], self.head)
        if length_b > limit_b:
            raise TooLarge(_TOO_LARGE)
        self._client = client
        self._whole = await self._in_time(limit_b)
        if self._whole:
            request_checks.check_method(scope["method"])
            if request_checks.check_media_type(scope["path"], self.head):
                scope[DOCUMENT] = await _parsed(self._whole)

    async def receive(self) -> Message:
        """Give the body that was read, and then whatever the server still has to say."""
        whole, self._whole = self._whole, None
        if whole is None:
            assert not self.more, "only a route that has asked who is there may read a body"
            return await self._receive()
        return {"type": "http.request", "body": whole, "more_body": False}

    async def skip(self) -> bool:
        """Read a small body that nobody wants, so that the connection can be kept; say if it can.

        Raises:
            Gone: the client left.
        """
        if not self.more:
            return True
        if self.head is None or not request_checks.is_small(self.head, SMALL_B):
            return False
        with anyio.move_on_after(_SILENCE_S):
            while self.more:
                await self._next()
        return not self.more

    async def linger(self) -> None:
        """Read what still comes, for a moment, and keep nothing.

        A line that is cut while the client still sends would take the answer with it.

        Raises:
            Gone: the client left.
        """
        with anyio.move_on_after(_LINGER_S):
            while self.more:
                with anyio.move_on_after(_SILENCE_S) as silence:
                    await self._next()
                if silence.cancelled_caught:
                    return

    def forget(self) -> None:
        """Give back the room that the body took."""
        if self._held_b:
            self._room.give(self._client, self._held_b)
            self._held_b = 0

    async def _in_time(self, limit_b: int) -> bytes:
        try:
            with anyio.fail_after(self._bounds.timeout_s):
                return await self._all(limit_b)
        except TimeoutError:
            raise TooSlow("The body did not come in time; send it again, or send less.") from None

    async def _all(self, limit_b: int) -> bytes:
        parts, size_b = [], 0
        while self.more:
            part = await self._next()
            size_b += len(part)
            if size_b > limit_b:
                raise TooLarge(_TOO_LARGE)
            self._hold(size_b - SMALL_B - self._held_b)
            parts.append(part)
        return b"".join(parts)

    def _hold(self, more_b: int) -> None:
        if more_b > 0:
            self._room.take(self._client, more_b)
            self._held_b += more_b

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] != "http.request":
            self.more = False
            raise Gone
        self.more = message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


async def _parsed(whole: bytes) -> object:
    if len(whole) < _PARSED_ASIDE_B:
        return strict_json.read(whole)
    return await anyio.to_thread.run_sync(strict_json.read, whole)
