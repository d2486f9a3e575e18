"""Points on their way to the service, in a temporary file: a long history is never in memory."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Self

from service.schemas.measured_elsewhere import ForeignPoint

_TABLE: Final = """
CREATE TABLE points (
    series BLOB, kind BLOB, at REAL, benchmark TEXT, metric TEXT, revision TEXT,
    committed_at REAL, document TEXT
)
"""
_DATED_TWICE: Final = """
SELECT revision FROM points GROUP BY revision HAVING count(DISTINCT committed_at) > 1 LIMIT 1
"""
_BENCHMARKS: Final = """
SELECT benchmark, metric, count(*), count(DISTINCT revision) FROM points GROUP BY 1, 2 ORDER BY 1, 2
"""
_FIRSTS: Final = """
SELECT document FROM points WHERE rowid IN (SELECT min(rowid) FROM points GROUP BY kind)
"""
_IN_ORDER: Final = "SELECT document FROM points ORDER BY series, at DESC"


class Staging:
    """The points of one source; SQLite's file has no name and goes with the process."""

    def __init__(self, points: Iterable[ForeignPoint] = ()) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("PRAGMA temp_store = FILE")  # sorting too
        self._file.execute(_TABLE)
        self._file.execute("BEGIN")
        self.count = self.nameless = 0
        for point in points:
            self.add(point)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, point: ForeignPoint) -> None:
        """Put a point with the others."""
        parameters, machine = (sorted(one.items()) for one in (point.parameters, point.machine))
        series = (point.benchmark, parameters, point.metric, machine)
        row = (
            _digest(series),
            _digest((series, point.unit, point.direction.value)),
            _seconds(point.committed_at or point.at),
            point.benchmark,
            point.metric,
            point.revision,
            _seconds(point.committed_at),
            point.model_dump_json(exclude_defaults=True),
        )
        self._file.execute("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self.count += 1
        self.nameless += point.revision is None

    def dated_twice(self) -> str | None:
        """A commit to which two points give different dates."""
        twice: str | None
        (twice,) = next(self._rows(_DATED_TWICE), (None,))
        return twice

    def benchmarks(self) -> Iterator[tuple[str, str, int, int]]:
        """Each benchmark and metric, with its numbers of points and of commits."""
        yield from self._rows(_BENCHMARKS)

    def firsts(self) -> Iterator[str]:
        """One point, as JSON, of each series in each unit and direction that it has."""
        yield from (document for (document,) in self._rows(_FIRSTS))

    def in_order(self) -> Iterator[str]:
        """All points as JSON, each series together and its newest points first.

        So a history is judged whole: a change that is old already is shown, and announced to
        nobody.
        """
        yield from (document for (document,) in self._rows(_IN_ORDER))

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        return self._file.execute(query)


def _digest(named: object) -> bytes:
    return hashlib.blake2b(repr(named).encode(), digest_size=16).digest()


def _seconds(at: datetime | None) -> float | None:
    return at.timestamp() if at else None
