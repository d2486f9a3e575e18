"""Checks that this worker's device can be used at all, apart from any job.

A lost GPU fails every job within seconds: its worker must not empty the queue. A child reports it
by its exit code. But a child runs the code under test, so the worker checks again with its own
code.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress

from benchmarks import die_with_parent
from benchmarks.contracts import line
from benchmarks.exits import NO_DEVICE
from worker.http_exchange import GoesOn, always
from worker.settings import Settings, child_environment

LIMIT_S = 120.0
"""Longer than torch loads from a cold disk; a slower start hangs inside a driver."""
LOOK_S = 0.2
_ASK = """
import sys
from benchmarks.exits import NO_DEVICE
from benchmarks.measure.device import choose
try:
    for device in sys.argv[1:]:
        choose(device)
except RuntimeError as error:
    sys.stderr.write(str(error).partition("\\n")[0])
    sys.exit(NO_DEVICE)
"""


class Unusable(Exception):
    """The device cannot be used, whatever the job; the message says why."""


def obstacle(settings: Settings, goes_on: GoesOn) -> str | None:
    """Give the reason why the device cannot be used; "" if it can, None if unknown.

    It is unknown if the Python of `settings` has no torch, and once ``goes_on`` returns False.
    """
    if settings.device == "cpu":
        return ""
    try:
        answer = ask(settings, _ASK, goes_on)
    except TimeoutError as error:
        return str(error)
    except OSError:
        return None
    return None if answer is None else _reason(answer)


def ask(
    settings: Settings, program: str, goes_on: GoesOn = always
) -> subprocess.CompletedProcess[str] | None:
    """Run ``program``, told the devices, with the Python of ``settings``.

    None once ``goes_on`` returns False.

    Raises:
        TimeoutError: it does not end, as a process that hangs inside a driver.
        OSError: it cannot be started.
    """
    asked = subprocess.Popen(
        [*die_with_parent.tied(), settings.python, "-c", program, *settings.devices],
        env=child_environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until_s = time.monotonic() + LIMIT_S
    while goes_on():
        try:
            out, err = (one.decode(errors="replace") for one in asked.communicate(timeout=LOOK_S))
        except subprocess.TimeoutExpired:
            if time.monotonic() < until_s:
                continue
            _end(asked)
            raise TimeoutError(f"{settings.device} does not answer within {LIMIT_S:g} s.") from None
        return subprocess.CompletedProcess(asked.args, asked.returncode, out, err)
    _end(asked)
    return None


def _end(asked: subprocess.Popen[bytes]) -> None:
    asked.kill()
    with suppress(subprocess.TimeoutExpired):
        asked.communicate(timeout=1.0)


def _reason(answer: subprocess.CompletedProcess[str]) -> str | None:
    if answer.returncode == NO_DEVICE:
        return line(answer.stderr.rstrip().rpartition("\n")[2]) or "torch refuses it."
    return "" if answer.returncode == 0 else None
