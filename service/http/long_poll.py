"""Holds a request open without holding a thread or a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from starlette.requests import Request

_FIRST_S = 0.05
_LONGEST_S = 1.0
ANSWER_NOW = "answer_now"
"""In a request's state: the service stops, or the client closed its side. It may read what is
answered, or be gone; a job that waits for a worker which is gone would be leased to nobody."""


async def pauses(request: Request, wait_s: float) -> AsyncIterator[None]:
    """Pause ever longer, until ``wait_s`` is over, the client may be gone, or the service stops."""
    deadline = anyio.current_time() + wait_s
    pause_s = _FIRST_S
    while (left_s := deadline - anyio.current_time()) > 0:
        await anyio.sleep(min(pause_s, left_s))
        if getattr(request.state, ANSWER_NOW, False) or await request.is_disconnected():
            return
        yield
        pause_s = min(pause_s * 1.5, _LONGEST_S)
