"""Requests to end a worker: the first signal drains, the second one aborts."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SLICE_S = 0.1


class Aborted(BaseException):
    """The second signal came while nothing had to be tidied up first."""


class Stop:
    """Counts requests to end. Only numbers change here, because a signal handler may not wait."""

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
