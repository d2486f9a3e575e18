"""Makes text from other parties safe for a log or a terminal.

A newline would begin a forged log line, an escape sequence could move the cursor or set a window's
title, and a change of direction shows other words than are there. Each such character is escaped as
in JSON, so that JSON stays the same JSON.
"""

from __future__ import annotations

import atexit
import logging
import re
import sys

from benchmarks.log_rate import RateLimit

_OBEYED = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: some terminals take U+009B for ESC [
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    "\u2028\u2029\ufeff"
    "\ud800-\udfff"  # no characters at all: writing them out would fail
    "]"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
LINES = "\n\t"
"""What may stay in text of several lines."""


def printable(text: str, keep: str = "") -> str:
    """Write out every character that would be obeyed, but for those in ``keep``."""
    return _OBEYED.sub(lambda match: _written(match[0], keep), text)


def _written(character: str, keep: str) -> str:
    if character in keep:
        return character
    return _SHORT.get(character, f"\\u{ord(character):04x}")


class PrintableLog(logging.Formatter):
    """Each record begins one line and only that; lines of a traceback are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Write the line of a record."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        """Write a traceback; its last lines may be a stranger's."""
        lines = super().formatException(ei).split("\n")  # type: ignore[arg-type]
        return "\n".join(f"  {printable(line)}" for line in lines)


def log_to_stderr(line: str = "%(asctime)s %(levelname)s %(name)s %(message)s") -> None:
    """Log from INFO on to stderr, each record as ``line`` says (as for `logging.Formatter`).

    Of lines that repeat themselves some are written, and then their number.
    """
    handler = logging.StreamHandler(sys.stderr)
    limit = RateLimit()
    handler.addFilter(limit)
    atexit.register(limit.tell)
    handler.setFormatter(PrintableLog(line))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
