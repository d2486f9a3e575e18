"""Tells the service which revisions can be measured here, and when that changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from worker.checkouts import Checkouts
from worker.client import ClientError
from worker.state_dir import Occupied

_NOTHING = object()
"""Told so far: the first look tells what came since the introduction."""
LOOK_S = 1.0
"""Between two looks into the folder of checkouts: a gate may follow a deployment at once."""


class Deployments:
    """Looks for new checkouts from a thread while its ``with`` block lasts.

    A worker that waits for a job, or measures one, would tell of them only afterwards, and a gate
    of a revision that nobody has is refused.
    """

    def __init__(self, checkouts: Checkouts, tell: Callable[[], object]) -> None:
        """Watch for what ``tell`` has to tell the service of again."""
        self._checkouts = checkouts
        self._tell = tell
        self._told: object = _NOTHING
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deployments", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            found = self._checkouts.revisions()
            if found != self._told:
                # Whoever is away now, or refuses this worker, is dealt with where jobs are claimed.
                with suppress(ClientError, Occupied):
                    self._tell()
                    self._told = found
