"""CSV with a header: one row a point, samples separated by spaces, facts as JSON objects."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from cli.formats import columns
from cli.formats.node import Node
from cli.formats.problem import FormatError
from cli.formats.source import LARGEST, Source
from cli.formats.text import short
from service.schemas.measured_elsewhere import ForeignPoint

_FORMULA = re.compile(r"'*[=+@\t-]")
"""The beginning of what a spreadsheet would run; an apostrophe before it makes it text."""


def recognises(source: Source) -> bool:
    """True for text whose first line names ``benchmark``, ``metric`` and ``values``."""
    return columns.has_needed(name.strip() for name in next(source.lines(), "").split(","))


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each row. A column ``parameters.NAME`` is one parameter."""
    rows = _rows(source)
    line, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    top = Node(None, source.path, key=f"line {line}")
    facts = [f"{fact}." for fact in columns.FACTS]
    columns.refuse_unknown((n for n in names if not n.startswith(tuple(facts))), top)
    if len(set(names)) < len(names):
        raise top.refuse("names a column twice.")
    for line, cells in rows:
        yield columns.point_of(source, _row(source, line, names, cells))


def _rows(source: Source) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LARGEST)  # else 131,072 characters, which 10,000 samples exceed
    reader = csv.reader(source.lines(newline=""), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as problem:
        raise FormatError(
            f"is no CSV ({problem}).", source.path, f"line {reader.line_num}"
        ) from None


def _row(source: Source, line: int, names: list[str], cells: list[str]) -> Node:
    row = Node(None, source.path, key=f"line {line}")
    if len(cells) != len(names):
        raise row.refuse(f"has {len(cells)} cells, and the header has {len(names)}.")
    typed: dict[str, object] = {}
    for name, cell in zip(names, cells, strict=True):
        if cell or name == "direction":  # an empty last cell was cut off
            kind, _, fact = name.partition(".")
            if fact:
                typed[kind] = {**_object(typed.get(kind)), fact: cell}
            elif kind in columns.FACTS:
                typed[kind] = {**columns.facts_of(row, cell), **_object(typed.get(kind))}
            else:
                typed[name] = _typed(row, name, cell)
    row.value = typed
    return row


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _typed(row: Node, name: str, cell: str) -> object:
    try:
        if name == columns.VALUES:
            return [float(value) for value in cell.split()]
        if name in columns.NUMBERS:
            return float(cell)
        return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
    except ValueError:
        raise row.refuse(f"{short(cell)!r} in {name!r} is no number.") from None


def write(points: Sequence[ForeignPoint], stream: BinaryIO) -> None:
    """Write a header and one row a point; numbers as the shortest text that reads back equal."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns.COLUMNS)
    for point in points:
        row = point.model_dump(mode="json")
        row[columns.VALUES] = " ".join(repr(value) for value in point.values)
        row |= {key: json.dumps(row[key], ensure_ascii=False) for key in columns.FACTS if row[key]}
        row |= {key: f"'{row[key]}" for key in columns.TEXTS if _FORMULA.match(row[key] or "")}
        writer.writerow("" if row[key] in (None, {}) else row[key] for key in columns.COLUMNS)
    stream.write(text.getvalue().encode())
