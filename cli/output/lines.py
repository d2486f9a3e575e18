"""Plain lines on stdout and stderr. It imports little: `throughline --help` must not wait."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from benchmarks.terminal import LINES, printable

_NOT_WRITTEN = frozenset(
    {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EBADF}
)


def show_on_any_terminal() -> None:
    """Let a character that the terminal does not have be a question mark, and no error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
            stream.reconfigure(errors="replace")


def flush() -> None:
    """Have written what was said, while an error can still be told.

    Raises:
        OSError: it cannot be written.
    """
    if sys.stdout is not None:  # it is where the shell has closed it
        sys.stdout.flush()


def was_lost(error: OSError) -> bool:
    """Return True if ``error`` is of writing the output; an error of a file names that file."""
    return error.errno in _NOT_WRITTEN and error.filename is None


def give_up(error: OSError) -> None:
    """Say what was lost, unless its reader has just gone, and write no more to stdout."""
    with suppress(OSError):
        if error.errno != errno.EPIPE:
            remark(f"The output could not be written: {error.strerror}.")
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())  # Python tries once more when it ends


def say(text: str, file: TextIO | None = None) -> None:
    """Write lines of text, Markdown or JSON to stdout, or to ``file``; a terminal obeys nothing."""
    print(printable(text, LINES), file=file or sys.stdout)


def remark(sentence: str) -> None:
    """Say something beside the output, on stderr."""
    say(sentence, sys.stderr)
