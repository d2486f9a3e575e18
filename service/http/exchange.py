"""One request and its answer, within bounds of memory and time that uvicorn does not set.

A body is read when its route asks for it, after its sender is known: a stranger, and a client that
sends slowly, hold some KiB and no thread, no database turn, no session. An answer goes out no
faster than its client takes it: uvicorn takes an answer whole and keeps what the client does not
take, so that two dozen clients that read nothing cost a gigabyte.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import cast

import anyio
import anyio.lowlevel
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.principal import client_of
from service.http.security_headers import HTTPS_FOR_A_YEAR, RAW
from service.schemas.errors import BadRequest, Overloaded, TooLarge, TooSlow

EXCHANGE = "throughline.exchange"
"""Where in the scope the exchange is."""
SMALL_B = 16 * 2**10
"""What a body may have without memory that others might hold: heartbeats and claims have some
hundred bytes. All connections together hold no more than 64 MiB of such."""
PIECE_B = 2**16
"""What is given to the server at once; a smaller answer counts for nothing."""
_SILENCE_S = 1.0
"""How long a refused client may pause. As long its answer waits for a small body."""
_LINGER_S = 10.0
"""How long a refused client is listened to, so that it reads the answer before the line ends."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What all requests together, and each body, may hold."""

    bodies_b: int
    """Of all bodies, beyond `SMALL_B` each."""
    answers_b: int
    """Of all large answers that clients have not taken."""
    body_s: float
    """For a whole body to come."""


class Memory:
    """At most ``most_b`` bytes, and of each client at most half of that.

    Whoever holds nothing may always take something, so that no single thing is too large for ever.
    """

    def __init__(self, most_b: int) -> None:
        self._most_b = most_b
        self._of: Counter[str] = Counter()
        self.held_b = 0
        """What all clients hold now."""

    def take(self, client: str, size_b: int) -> None:
        """Note that a client holds so many more bytes.

        Raises:
            Overloaded: it may not, and nothing was noted.
        """
        of_client, of_all = self._of[client], self.held_b
        if of_client and of_client + size_b > self._most_b // 2:
            raise Overloaded("You are sending or fetching too much at once; try again in a moment.")
        if of_all and of_all + size_b > self._most_b:
            raise Overloaded("The service holds too much at once; try again in a moment.")
        self._of[client] += size_b
        self.held_b += size_b

    def give(self, client: str, size_b: int) -> None:
        """Note that a client holds so many bytes no more."""
        self.held_b -= size_b
        self._of[client] -= size_b
        if not self._of[client]:
            del self._of[client]


class Shared(Response):
    """An answer that is the same bytes for everybody, such as a file: it takes no memory."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer in pieces that are too small to count."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for at in range(0, len(self.body), PIECE_B):
            piece = self.body[at : at + PIECE_B]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await anyio.lowlevel.checkpoint()
        await send({"type": "http.response.body", "body": b""})


class BoundedExchanges(FastAPI):
    """An application whose every request is an `Exchange`, those that end in a fault too."""

    def build_middleware_stack(self) -> ASGIApp:
        """Hand requests straight to the routes; what these raise, `__call__` answers, once."""
        return self.router

    def bound(self, limits: Limits) -> None:
        """Set the limits; call it once, before the first request."""
        self.state.limits = limits
        self.state.bodies, self.state.answers = Memory(limits.bodies_b), Memory(limits.answers_b)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; HEAD as GET, without the body."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        exchange = Exchange(self, scope, receive, send)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        scope = {**scope, EXCHANGE: exchange, "method": method}
        try:
            if flaw := exchange.flaw():
                raise flaw
            await super().__call__(scope, exchange.receive, exchange.send)
        except Exception as fault:
            if exchange.began:  # half an answer is out; the server ends the connection
                raise
            await exchange.refusal(fault)(scope, exchange.receive, exchange.send)
        finally:
            exchange.release()


class Exchange:
    """One request: what of its body is still to come, and how its answer is sent."""

    def __init__(self, app: FastAPI, scope: Scope, receive: Receive, send: Send) -> None:
        self._app = app
        self._scope = scope
        self._receive = receive
        self._send = send
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._chunked = b"transfer-encoding" in self.headers
        self._length_b = int(self.headers.get(b"content-length", b"0"))
        self._more = True
        """Whether something of the body may still come."""
        self._head = scope["method"] == "HEAD"
        self._held: list[tuple[Memory, str, int]] = []
        self._start: Message | None = None
        self._ends = False
        self.began = False
        """Whether something of the answer was sent."""

    def flaw(self) -> BadRequest | None:
        """Return what no route could mend.

        U+0000 is text for SQLite and none for PostgreSQL. A proxy may believe another end
        of the body than h11, and then the rest is a request that the proxy never saw.
        """
        target: bytes = self._scope.get("raw_path") or self._scope["path"].encode()
        if b"%00" in target or b"%00" in self._scope["query_string"]:
            return BadRequest("The address holds the character U+0000; leave it out.")
        if self._chunked and b"content-length" in self.headers:
            return BadRequest("Give the body's length or send it in chunks, not both.")
        if self._chunked and self._scope["http_version"] == "1.0":
            return BadRequest("HTTP/1.0 knows no chunks; give the body's length.")
        return None

    def refusal(self, fault: Exception) -> Response:
        """Return the answer to a fault, a page for a browser."""
        handlers = self._app.exception_handlers
        handler = next(handlers[kind] for kind in type(fault).__mro__ if kind in handlers)
        return cast(Response, handler(Request(self._scope), fault))

    async def body(self, limit_b: int) -> bytes:
        """Read the whole body.

        Raises:
            TooLarge: it has more than ``limit_b`` bytes.
            TooSlow: it did not come in time.
            Overloaded: there is no memory for it now.
            BadRequest: the client left.
        """
        if self._length_b > limit_b:
            raise TooLarge("The body is larger than this service accepts; send less at once.")
        try:
            async with asyncio.timeout(self._app.state.limits.body_s):
                return await self._whole(limit_b)
        except TimeoutError:
            raise TooSlow("The body did not come in time; send it again, or send less.") from None

    async def receive(self) -> Message:
        """Give what the server has to say next."""
        message = await self._receive()
        self._more = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer, and end the connection if some of the body never came.

        The rest of the body would keep the connection busy.
        """
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            message = await self._begin(start, message)
        body, more = message.get("body", b""), message.get("more_body", False)
        for at in range(PIECE_B, len(body), PIECE_B):
            await self._piece(body[at - PIECE_B : at], more=True)
            await anyio.lowlevel.checkpoint()
        await self._piece(body[(len(body) - 1) // PIECE_B * PIECE_B :], more=more or self._ends)
        if self._ends and not more:
            await self._linger()
            await self._piece(b"", more=False)

    def release(self) -> None:
        """Give back the memory that body and answer took."""
        for memory, client, size_b in self._held:
            memory.give(client, size_b)

    async def _whole(self, limit_b: int) -> bytes:
        parts, size_b, held_b = [], 0, SMALL_B
        while self._more:
            message = await self.receive()
            if message["type"] != "http.request":
                raise BadRequest("The connection ended before the body was whole.")
            part = message.get("body", b"")
            size_b += len(part)
            if size_b > limit_b:
                raise TooLarge("The body is larger than this service accepts; send less at once.")
            if size_b > held_b:
                self._hold(self._app.state.bodies, size_b - held_b)
                held_b = size_b
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _hold(self, memory: Memory, size_b: int) -> None:
        client = client_of(Request(self._scope))
        memory.take(client, size_b)
        self._held.append((memory, client, size_b))

    async def _begin(self, start: Message, first: Message) -> Message:
        """Send the head of an answer; return the part that follows, a refusal's without memory."""
        if len(first.get("body", b"")) > PIECE_B and not self._head:
            try:
                self._hold(self._app.state.answers, len(first["body"]))
            except Overloaded as fault:
                answer = self.refusal(fault)
                start = {**start, "status": answer.status_code, "headers": answer.raw_headers}
                first = {"type": "http.response.body", "body": bytes(answer.body)}
        announced = self._more and (self._chunked or self._length_b > 0)
        self._ends = announced and not await self._skip()
        headers = [*start.get("headers", ())]
        said = {name.lower() for name, _ in headers}
        headers += [header for header in RAW if header[0] not in said]
        if self._scope["scheme"] == "https":  # said by a named proxy; over HTTP browsers ignore it
            headers.append(HTTPS_FOR_A_YEAR)
        if self._ends:
            headers.append((b"connection", b"close"))
        self.began = True
        await self._send({**start, "headers": headers})
        return first

    async def _piece(self, body: bytes, *, more: bool) -> None:
        part = b"" if self._head else body
        await self._send({"type": "http.response.body", "body": part, "more_body": more})

    async def _skip(self) -> bool:
        """Read a small body that nobody wants, so that the connection can be kept; say if it can.

        A client that asks whether it may send (``Expect``) has no body on its way.
        """
        if self._chunked or self._length_b > SMALL_B or b"expect" in self.headers:
            return False
        with anyio.move_on_after(_SILENCE_S):
            while self._more:
                await self.receive()
        return not self._more

    async def _linger(self) -> None:
        """Read what still comes, for a moment, and keep nothing.

        A line that is cut while the client still sends would take the answer with it.
        """
        with anyio.move_on_after(_LINGER_S):
            while self._more:
                with anyio.move_on_after(_SILENCE_S) as silence:
                    await self.receive()
                if silence.cancelled_caught:
                    return
