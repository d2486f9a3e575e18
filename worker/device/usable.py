"""Checks that this worker's device can be used at all, apart from any job.

A lost GPU fails every job within seconds: its worker must not empty the queue. A child reports it
by its exit code. But a child runs the code under test, so the worker checks again with its own
code.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from benchmarks import die_with_parent
from benchmarks.contracts import line
from benchmarks.exits import NO_DEVICE
from worker.settings import Settings, child_environment

LIMIT_S = 120.0
"""Longer than torch loads from a cold disk; a slower start hangs inside a driver."""
LOOK_S = 0.2
_ASK = """
import sys
from benchmarks.exits import NO_DEVICE
from benchmarks.measure.device import choose
try:
    choose(sys.argv[1])
except RuntimeError as error:
    sys.stderr.write(str(error).partition("\\n")[0])
    sys.exit(NO_DEVICE)
"""


class Unusable(Exception):
    """The device cannot be used, whatever the job; the message says why."""


def obstacle(settings: Settings, goes_on: Callable[[], bool]) -> str | None:
    """Give the reason why the device cannot be used; "" if it can, None if unknown.

    It is unknown if the Python of `settings` has no torch, and once ``goes_on`` returns False.
    """
    if settings.device == "cpu":
        return ""
    command = [*die_with_parent.tied(), settings.python, "-c", _ASK, settings.device]
    try:
        asked = subprocess.Popen(
            command,
            env=child_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError:
        return None
    until_s = time.monotonic() + LIMIT_S
    while goes_on():
        try:
            said = asked.communicate(timeout=LOOK_S)[1]
        except subprocess.TimeoutExpired:
            if time.monotonic() < until_s:
                continue
            _end(asked)
            return f"{settings.device} does not answer within {LIMIT_S:g} s."
        return _reason(asked.returncode, said.decode(errors="replace"))
    _end(asked)
    return None


def _end(asked: subprocess.Popen[bytes]) -> None:
    asked.kill()
    with suppress(subprocess.TimeoutExpired):
        asked.communicate(timeout=1.0)


def _reason(code: int, said: str) -> str | None:
    if code == NO_DEVICE:
        return line(said.rstrip().rpartition("\n")[2]) or "torch refuses it."
    return "" if code == 0 else None
