"""Formats of other benchmark tools: files in, points out, and back.

Every reader makes `ForeignPoint` and every writer takes it. `FORMATS` says how each format is
recognised and what it cannot say. Nothing here knows the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from cli.formats.checks import checked
from cli.formats.format import Format, FormatRead, Loss, Reading
from cli.formats.known import FORMATS
from cli.formats.problem import FormatError
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

__all__ = [
    "FORMATS",
    "Format",
    "FormatError",
    "FormatRead",
    "Loss",
    "Reading",
    "begin",
    "read",
    "write",
]


def read(path: Path, format: str | None = None) -> FormatRead:  # noqa: A002 - as --format
    """Read all points of a file or folder, in the named format or the one that it looks like.

    Raises:
        FormatError: there is no such format, or anything in the file is wrong: nothing is read
            by halves.
    """
    reading = begin(path, format)
    return FormatRead(tuple(reading.points), reading.format, reading.losses, reading.notes)


def begin(path: Path, format: str | None = None) -> Reading:  # noqa: A002
    """Begin to read points, one at a time: CSV, JSON lines and Parquet are never in memory whole.

    Raises:
        FormatError: as `read`; what is wrong later in the file is said when its point is taken.
    """
    source = Source(path)
    used = _named(format, FORMATS) if format else _alike(source)
    if used is None:
        raise FormatError("is in no format known here: docs/formats.md lists them.", path)
    if format and not used.reader.recognises(source):
        other = _alike(source)
        alike = f" It looks like {other.title}." if other else ""
        raise FormatError(f"is not {used.title}, which is known by: {used.mark}.{alike}", path)
    losses = tuple(loss for loss in Loss if loss in used.silent)
    return Reading(_points(used, source), used.name, losses, source)


def _points(used: Format, source: Source) -> Iterator[ForeignPoint]:
    some = False
    for point in checked(used.reader.read(source), source.path):
        some = True
        yield point
    if not some:
        raise FormatError("; ".join(["holds no point", *source.notes]) + ".", source.path)


def write(points: Iterable[ForeignPoint], format: str, stream: BinaryIO) -> None:  # noqa: A002
    """Write ``points`` into ``stream``; on an error, nothing is written.

    Raises:
        FormatError: the format is not written here, or cannot hold these points.
    """
    used = _named(format, [known for known in FORMATS if known.writer])
    assert used.writer
    kept: Sequence[ForeignPoint] = tuple(points)
    used.writer(kept, stream)


def _alike(source: Source) -> Format | None:
    return next((known for known in FORMATS if known.reader.recognises(source)), None)


def _named(name: str, formats: Sequence[Format]) -> Format:
    for known in formats:
        if known.name == name:
            return known
    raise FormatError(
        f"There is no format {name!r} for this; there are "
        f"{', '.join(sorted(known.name for known in formats))}."
    )
