"""The stream that tells open pages that something was committed; each then asks for its own part.

It carries no data, so that it shows nobody more than the page does. One look a second at the
database's version serves all streams of a process.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from math import inf
from typing import Annotated

import anyio
from fastapi import Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.exc import DBAPIError

from service.auth.permissions import Permission
from service.dashboard.rendering import page_router
from service.database.session import Database
from service.http.long_poll import pauses
from service.schemas.errors import DatabaseUnavailable, Overloaded

router = page_router()

LONGEST_S = 600.0
"""After which a browser has to ask anew, and to show again who it is."""
_LOOK_S = 1.0
_FULL = "Too many pages listen for changes now; this one asks every few seconds instead."


class LiveStreams:
    """The streams of one process. Its methods run in the event loop."""

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._left = most
        self._looking = anyio.Lock()
        self._looked_s = -inf
        self._version = ""
        self._changes = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold the place of one stream.

        Raises:
            Overloaded: there are as many as there may be.
        """
        if self._left <= 0:
            raise Overloaded(_FULL)
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1

    async def changes(self) -> int:
        """Return how many looks found something new; a database that is away is news each time."""
        async with self._looking:
            if time.monotonic() - self._looked_s >= _LOOK_S:
                try:
                    version = await self._database.version()
                except (DatabaseUnavailable, DBAPIError):
                    version = ""
                if not version or version != self._version:
                    self._changes += 1
                self._version, self._looked_s = version, time.monotonic()
        return self._changes


async def _place(request: Request) -> AsyncIterator[None]:
    with request.app.state.live.place():
        yield


@router.get("/live", response_class=EventSourceResponse, dependencies=[Depends(_place)])
@Permission.READ.required
async def stream_changes(
    request: Request,
    pace_s: Annotated[float, Query(ge=0, le=60, allow_inf_nan=False)] = 5.0,
    wait_s: Annotated[float, Query(ge=0, le=LONGEST_S, allow_inf_nan=False)] = LONGEST_S,
) -> AsyncIterator[ServerSentEvent]:
    """Say ``changed`` at most every ``pace_s`` seconds, and once in any case after the first.

    What was committed between the page and its stream would else be seen by nobody.
    """
    told, told_s = -1, time.monotonic()
    async for _ in pauses(request, wait_s):
        changes = await request.app.state.live.changes()
        if changes != told and time.monotonic() - told_s >= pace_s:
            told, told_s = changes, time.monotonic()
            yield ServerSentEvent(raw_data="changed", id=str(changes))
