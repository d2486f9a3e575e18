"""Limits the log lines of one kind, and counts those left out.

A client that causes a line by each refused request or failed job could otherwise fill the disk and
bury all other lines.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

LINES, PERIOD_S = 30, 60.0
"""Lines of one kind that are written in so many seconds."""
_KINDS = 1_000
"""Kinds that are told apart in one period; others count as one."""
_OTHER = ("root", logging.WARNING, "(lines of many other kinds)")
_SUMMARY = "is_summary"

_Kind = tuple[str, int, str]


class RateLimit(logging.Filter):
    """A handler's filter: lets `LINES` lines of a kind through in each period.

    Lines are of one kind if one logger makes them from one message, whatever values stand in it.
    At the end of a period a line says how many of a kind were left out.
    """

    def __init__(self, lines: int = LINES, period_s: float = PERIOD_S) -> None:
        super().__init__()
        self._lines, self._period_s = lines, period_s
        self._lock = threading.Lock()
        self._seen: Counter[_Kind] = Counter()
        self._until_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count a line, and return True if it is to be written."""
        if getattr(record, _SUMMARY, False):
            return True
        now_s = time.monotonic()
        if now_s >= self._until_s:
            self.tell()
        with self._lock:
            if not self._seen:
                self._until_s = now_s + self._period_s
            kind = (record.name, record.levelno, str(record.msg))
            if kind not in self._seen and len(self._seen) >= _KINDS:
                kind = _OTHER
            self._seen[kind] += 1
            count = self._seen[kind]
            if count == self._lines + 1:
                self._tell_later(self._until_s - now_s)
        return count <= self._lines

    def tell(self) -> None:
        """Say how many lines were left out since it was last said, and begin anew."""
        with self._lock:
            seen, self._seen = self._seen, Counter()
        for (name, level, message), count in seen.items():
            if count > self._lines:
                logging.getLogger(name).log(
                    level,
                    "%d more lines like this were left out in %g s: %s",
                    *(count - self._lines, self._period_s, message),
                    extra={_SUMMARY: True},
                )

    def _tell_later(self, wait_s: float) -> None:
        timer = threading.Timer(wait_s, self.tell)
        timer.daemon = True  # what it has to say is said at the end of the process too
        timer.start()
