"""Starts a child so that it dies with its parent: ``launch.py PARENT_PID COMMAND ...``.

A parent that is killed cannot kill. The kernel can: it is asked to send SIGKILL when the parent
goes, and the request survives exec. Run as a file, so that it needs no package on the path.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CANNOT_START = 127
"""As a shell says it."""


def tied() -> tuple[str, ...]:
    """Return the words to put before a command so that it dies with this process."""
    return sys.executable, "-I", "-S", __file__, str(os.getpid())


def main() -> None:
    """Tie this process to its parent, then become the command."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != int(parent):  # it went before the kernel was asked
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.stderr.write(f"Cannot start {command[0]}: {error.strerror}.\n")
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
