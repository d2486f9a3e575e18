"""Plain lines on stdout and stderr. It imports little: `throughline --help` must not wait."""

from __future__ import annotations

import sys
from typing import TextIO

from benchmarks.printable import LINES, printable


def say(text: str, file: TextIO | None = None) -> None:
    """Write lines of text, Markdown or JSON to stdout, or to ``file``; a terminal obeys nothing."""
    print(printable(text, LINES), file=file or sys.stdout)
