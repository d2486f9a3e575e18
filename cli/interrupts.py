"""One way to end: a request to terminate, and a terminal that is closed, are as Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def as_ctrl_c() -> None:
    """Have SIGTERM and SIGHUP raise `KeyboardInterrupt` from now on; main thread only.

    A shell passes the end of its terminal on, though the kernel has told everybody already: only
    the first SIGHUP counts, or the second would break into the tidying up. Under nohup, which has
    it ignored, none does.
    """
    for one in SIGNALS:
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    if number == signal.SIGHUP:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt
