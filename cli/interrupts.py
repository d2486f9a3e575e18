"""Handles SIGTERM and a closed terminal like Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def as_ctrl_c() -> None:
    """Have SIGTERM and SIGHUP raise `KeyboardInterrupt` from now on; main thread only.

    Only the first SIGHUP counts: kernel and shell may both send one, and the second would interrupt
    the cleaning up. Under nohup, which ignores SIGHUP, none counts.
    """
    for one in SIGNALS:
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    if number == signal.SIGHUP:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt
