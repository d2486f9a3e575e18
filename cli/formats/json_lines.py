"""JSON lines: one point a line, by the names of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from cli.formats.columns import has_needed, point_of, refuse_unknown
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint


def recognises(source: Source) -> bool:
    """True for a first line that is an object with ``benchmark``, ``metric`` and ``values``."""
    first = source.first_line
    if first is None or not isinstance(first.value, dict) or not has_needed(first.value):
        return False
    return isinstance(first.value["benchmark"], str)


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each line."""
    for row in source.rows():
        refuse_unknown((key for key, _ in row.items()), row)
        yield point_of(source, row)


def write(points: Sequence[ForeignPoint], stream: BinaryIO) -> None:
    """Write one line a point."""
    stream.write("".join(f"{point.model_dump_json()}\n" for point in points).encode())
