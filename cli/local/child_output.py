"""Reads what a child prints until it ends, and waits for no other holder of its standard output."""

from __future__ import annotations

import os
import selectors
import subprocess
import time

from worker.child.output import CHUNK_B, Output


def read_until_exit(child: subprocess.Popen[bytes], printed: Output, limit_s: float | None) -> None:
    """Read what ``child`` prints until it has ended; it is not collected yet then.

    Its end alone counts: a process that a model has started inherits the pipe, and may be there for
    hours.

    Raises:
        subprocess.TimeoutExpired: it has not ended within ``limit_s`` seconds.
    """
    until_s = None if limit_s is None else time.monotonic() + limit_s
    ended = os.pidfd_open(child.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ)
            selector.register(printed.fd, selectors.EVENT_READ)
            while True:
                left_s = None if until_s is None else until_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    raise subprocess.TimeoutExpired(child.args, limit_s or 0.0)
                ready = {key.fd for key, _ in selector.select(left_s)}
                if printed.fd in ready and not printed.read():
                    selector.unregister(printed.fd)
                if ended in ready:
                    return
    finally:
        os.close(ended)


def rest(printed: Output) -> bytes:
    """The end of all that was printed, once nobody prints any more."""
    return printed.drain(printed.total_b + 2 * CHUNK_B).kept
