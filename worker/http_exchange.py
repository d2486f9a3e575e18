"""HTTP requests whose answers are bounded as a whole: in bytes, in time, and by a caller's wish.

A timeout for each step is no bound: a server may send a byte a second for ever. So requests run in
an event loop, in a thread of its own, and are cancelled from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import anyio
import httpx2
from anyio.from_thread import start_blocking_portal

LOOK_S = 0.1
"""Time between two checks whether the caller still waits."""
SLOWEST_UPLOAD_B_S = 100_000.0
"""Upload rate at which the time allowed grows; on a slower line large bodies fail."""

GoesOn = Callable[[], bool]
_WHOLE = {"Accept-Encoding": "identity"}
"""A small compressed answer could unpack to any size."""


class TooLarge(httpx2.TransportError):
    """The answer is larger than any of the service's, or compressed."""


class TooSlow(httpx2.TransportError):
    """The answer was not whole in time, however steadily it came."""


class GivenUp(httpx2.TransportError):
    """Nobody waits for the answer any more."""


def always() -> bool:
    """Wait for an answer as long as it may take."""
    return True


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one request, in bytes and s."""

    answer_b: int
    whole_s: float
    """From looking up the address to the last byte, without the time to send a body."""
    goes_on: GoesOn = always
    """Asked while it runs; false ends it."""
    follows: bool = False
    """True: an answer may name another address, which is then asked without the token."""


class Exchange:
    """A connection to one address, for several threads; a context manager."""

    def __init__(
        self, base_url: str, timeout: float | httpx2.Timeout, headers: Mapping[str, str]
    ) -> None:
        """``timeout``, in s, is for each step of a request: to connect, to send, to receive."""
        self._http = httpx2.AsyncClient(
            base_url=base_url, timeout=timeout, headers={**headers, **_WHOLE}
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._portal = self._stack.enter_context(start_blocking_portal(name="http"))
        self._stack.callback(self._portal.call, self._http.aclose)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, method: str, path: str, bounds: Bounds, **what: Any) -> httpx2.Response:
        """Send a request and give its whole answer; ``what`` goes to httpx2.

        Raises:
            TooLarge, TooSlow, GivenUp: it went beyond its bounds; its connection is closed.
            httpx2.HTTPError: there was no answer.
        """
        task = self._portal.start_task_soon(self._whole, method, path, bounds, what)
        try:
            while not wait([task], LOOK_S).done:
                if not bounds.goes_on():
                    raise GivenUp("the request was broken off because nobody waits for it")
            answer: httpx2.Response = task.result()
            return answer
        finally:
            task.cancel()

    async def _whole(
        self, method: str, path: str, bounds: Bounds, what: Mapping[str, Any]
    ) -> httpx2.Response:
        request = self._http.build_request(method, path, **what)
        upload_s = int(request.headers.get("Content-Length", 0)) / SLOWEST_UPLOAD_B_S
        try:
            with anyio.fail_after(bounds.whole_s + upload_s):
                return await self._read(request, bounds)
        except TimeoutError:
            sentence = f"its answer was not complete after {bounds.whole_s + upload_s:.0f} s"
            raise TooSlow(sentence) from None

    async def _read(self, request: httpx2.Request, bounds: Bounds) -> httpx2.Response:
        answer = await self._bounded(request, bounds.answer_b)
        if not (bounds.follows and answer.has_redirect_location):
            return answer
        # By hand: httpx2 would read this answer without bounds, and send the token to its own host.
        onward = httpx2.Request(
            "GET",
            request.url.join(answer.headers["Location"]),
            headers=_WHOLE,
            extensions=request.extensions,
        )
        return await self._bounded(onward, bounds.answer_b)

    async def _bounded(self, request: httpx2.Request, most_b: int) -> httpx2.Response:
        answer = await self._http.send(request, stream=True, follow_redirects=False)
        try:
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise TooLarge("its answer is packed, though that was not asked for")
            body = bytearray()
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > most_b:
                    raise TooLarge(f"its answer has more than {most_b / 2**20:g} MiB")
        finally:
            await answer.aclose()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=bytes(body))
