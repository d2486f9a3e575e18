"""Refuses what cannot be the points of one or more whole runs."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from cli.formats.problem import FormatError
from cli.formats.text import short
from service.schemas.measured_elsewhere import ForeignPoint


def checked(points: Iterable[ForeignPoint], path: Path) -> Iterator[ForeignPoint]:
    """Pass points on, and look for metrics of two units and for points that are there twice.

    Raises:
        FormatError: names the benchmark.
    """
    with closing(FirstValues()) as firsts:
        for number, point in enumerate(points):
            unit = firsts.of((point.benchmark, point.metric), point.unit)
            if unit != point.unit:
                raise FormatError(
                    f"{point.metric!r} is in {unit!r} and in {point.unit!r}: one unit is needed.",
                    path,
                    short(point.benchmark),
                )
            if firsts.of(_identity(point), str(number)) != str(number):
                raise FormatError(
                    f"{point.metric!r} is there twice for one run: two runs need two files, "
                    "or their times.",
                    path,
                    short(point.benchmark),
                )
            yield point


class FirstValues:
    """The first value of each key; millions of keys lie in a temporary file of SQLite."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("CREATE TABLE firsts (key BLOB PRIMARY KEY, value TEXT) WITHOUT ROWID")
        self._file.execute("BEGIN")

    def of(self, key: object, value: str) -> str:
        """The value that came first with this key, which may be this one."""
        digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
        said = self._file.execute("SELECT value FROM firsts WHERE key = ?", (digest,)).fetchone()
        if said is None:
            self._file.execute("INSERT INTO firsts VALUES (?, ?)", (digest, value))
        return said[0] if said else value

    def close(self) -> None:
        """Give the file up."""
        self._file.close()


def _identity(point: ForeignPoint) -> object:
    return (
        point.benchmark,
        tuple(sorted(point.parameters.items())),
        point.metric,
        point.revision,
        point.at and point.at.timestamp(),
        tuple(sorted(point.machine.items())),
    )
