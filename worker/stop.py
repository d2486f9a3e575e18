"""Requests to end a worker (the first signal drains, the second aborts), and patience till then."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from worker.client import ServiceAway
from worker.http_exchange import GoesOn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SLICE_S = 0.1


class Aborted(BaseException):
    """The second signal came while nothing had to be cleaned up first."""


class Stop:
    """Counts requests to end. A signal handler may not wait, so it only changes numbers."""

    def __init__(self) -> None:
        self._asked = 0
        self._asked_at_s = 0.0
        self._may_raise = False

    @property
    def draining(self) -> bool:
        """Return True if the worker is to take no further job."""
        return self._asked >= 1

    @property
    def aborted(self) -> bool:
        """Return True if the worker is to end the running job as well."""
        return self._asked >= 2

    def allows(self, seconds: float) -> bool:
        """Return True if nobody has asked yet, or not longer than ``seconds`` ago."""
        return not self.draining or time.monotonic() < self._asked_at_s + seconds

    def ask(self) -> None:
        """Ask once more; callable from any thread."""
        if not self._asked:
            self._asked_at_s = time.monotonic()
        self._asked += 1

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within, the second signal raises `Aborted`: for waiting that holds nothing but a socket.

        Raises:
            Aborted: the worker was asked twice to end.
        """
        self._may_raise = True
        try:
            if self.aborted:
                raise Aborted
            yield
        finally:
            self._may_raise = False

    def pause(self, seconds: float, goes_on: Callable[[], bool]) -> bool:
        """Sleep while ``goes_on()``; say whether it still does."""
        until_s = time.monotonic() + seconds
        while goes_on() and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(SLICE_S, left_s))
        return goes_on()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let SIGINT, SIGTERM and SIGHUP ask; outside the main thread there are no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # nohup has SIGHUP ignored, and means it.
        mine = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._handle) for number in mine}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.ask()
        if self._asked == 1:
            _say(b"Stopping after the current job; once more stops at once.\n")
        elif self._asked == 2:
            _say(b"Stopping at once.\n")
        if self.aborted and self._may_raise:
            raise Aborted


def _say(sentence: bytes) -> None:
    with suppress(OSError):
        os.write(2, sentence)


T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """Exponential backoff with jitter between two bounds in s, so that workers do not return
    to a restarted service all at once."""

    stop: Stop
    first_s: float
    limit_s: float

    def insist(self, call: Callable[[GoesOn], T], goes_on: GoesOn) -> T:
        """Repeat ``call`` while the service is away and ``goes_on()``; a second signal ends it.

        ``call`` is given ``goes_on``, so that a request that runs breaks off with it.

        Raises:
            ServiceAway: ``goes_on`` said to give up.
            Fenced, Refused: an answer that no repetition changes.
            Aborted: the worker was asked twice to end.
        """
        with self.stop.interruptible():
            return self.persist(call, goes_on)

    def persist(self, call: Callable[[GoesOn], T], goes_on: GoesOn) -> T:
        """As `insist`, but no signal breaks into it."""
        wait_s = self.first_s
        warned = False
        while True:
            try:
                answer = call(goes_on)
            except ServiceAway as away:
                if not goes_on():
                    raise
                if not warned:  # once, not each time
                    log.warning("%s Trying again until it does.", away)
                    warned = True
                if not self.stop.pause(random.uniform(self.first_s / 2, wait_s), goes_on):
                    raise
                wait_s = min(self.limit_s, 2 * wait_s)
            else:
                if warned:
                    log.info("The service answers again.")
                return answer
