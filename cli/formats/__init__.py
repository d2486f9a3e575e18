"""Formats of other benchmark tools: files in, points out, and back.

Every reader makes `ForeignPoint` and every writer takes it. `FORMATS` says how each format is
recognised and what it cannot say. Nothing here knows the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from cli.formats.checks import check
from cli.formats.format import Format, FormatRead, Loss
from cli.formats.known import FORMATS
from cli.formats.problem import FormatError
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

__all__ = ["FORMATS", "Format", "FormatError", "FormatRead", "Loss", "read", "write"]


def read(path: Path, format: str | None = None) -> FormatRead:  # noqa: A002 - as --format
    """Read all points of a file or folder, in the named format or the one that it looks like.

    Raises:
        FormatError: there is no such format, or anything in the file is wrong: nothing is read
            by halves.
    """
    source = Source(path)
    used = _named(format, FORMATS) if format else _alike(source)
    if used is None:
        raise FormatError("is in no format known here: docs/formats.md lists them.", path)
    if format and not used.reader.recognises(source):
        other = _alike(source)
        alike = f" It looks like {other.title}." if other else ""
        raise FormatError(f"is not {used.title}, which is known by: {used.mark}.{alike}", path)
    points = tuple(used.reader.read(source))
    notes = tuple(f"{count:,} {what}" for what, count in source.tally.items())
    if not points:
        raise FormatError("; ".join(["holds no point", *notes]) + ".", path)
    check(points, path)
    return FormatRead(points, used.name, tuple(loss for loss in Loss if loss in used.silent), notes)


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
