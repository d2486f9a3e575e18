"""The input of `throughline detect`: JSON lines, or CSV with one history per column or per id."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmarks.contracts import Direction
from cli.exits import Stop
from service.analysis.detection.history import Refused
from service.wording import formats

VALUE, ID, GROUP, REVISION = "value", "id", "group", "revision"
"""Columns with a meaning. A CSV file with ``value`` has one row per point, with its history in
``id``; any other file has one column per history. ``group`` names the machine of a row in both,
``revision`` the revision."""
_EMPTY = "There is no history in the input: it is empty."
_SHOWN = 60
"""Characters of a value in a sentence."""


class Unreadable(Exception):
    """The input is unusable; the sentence names the line."""


Name = Annotated[str, Field(coerce_numbers_to_str=True)]


class HistoryLine(BaseModel):
    """One history to analyse."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str | Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    direction: Direction = Direction.LOWER
    values: list[object]
    """Keep null and other invalid values: `numbers` refuses this history alone, by their index."""
    groups: list[Name] | None = None
    revisions: list[Name] | None = None
    """To see that the values are in their order, and to judge histories together."""
    suite: Name | None = None
    """Histories of one suite are judged together where that is asked for."""

    @property
    def numbers(self) -> list[float]:
        """The values, with NaN for null."""
        return [_number_of(value, at) for at, value in enumerate(self.values)]


@dataclass(frozen=True, slots=True)
class Read:
    """A history, and warnings about ignored names that look like ours."""

    line: HistoryLine
    unread: tuple[str, ...] = ()


def _number_of(value: object, at: int) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        shown = json.dumps(value, ensure_ascii=False)[:_SHOWN]
        raise Refused(f"Value {at} is {shown}, which is no number.")
    try:
        return float(value)
    except OverflowError:  # an integer greater than any float
        return math.inf


@contextmanager
def opened(source: str) -> Iterator[Iterator[str]]:
    """The lines of a file, or of standard input."""
    if source == "-":
        yield _decoded(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline=""))
        return
    try:
        with Path(source).open(encoding="utf-8-sig", newline="") as lines:
            yield _decoded(lines)
    except OSError as problem:
        raise Stop(f"{source} cannot be read: {problem.strerror}.") from None


def _decoded(lines: Iterable[str]) -> Iterator[str]:
    try:
        yield from lines
    except UnicodeDecodeError:
        raise Unreadable("The input is no text in UTF-8; save it as such.") from None


def from_json_lines(lines: Iterable[str], direction: Direction) -> Iterator[Read]:
    """One history per line, of ``direction`` unless it has its own. Empty lines are skipped; one
    line must not be empty."""
    number, empty = 0, 0
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            empty += 1
            continue
        try:
            line = HistoryLine.model_validate_json(text)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            fault = f"{where}: {first['msg']}" if where else first["msg"]
            raise Unreadable(f"Line {number} is no history ({fault}).") from None
        given = "direction" in line.model_fields_set
        unread = tuple(unread_fields(line.model_extra or (), HistoryLine.model_fields))
        yield Read(line if given else line.model_copy(update={"direction": direction}), unread)
    if empty == number:
        raise Unreadable(_EMPTY)


def from_csv(lines: Iterable[str], direction: Direction) -> Iterator[Read]:
    """One history per ``id`` or per column. Columns without a number are skipped; one column must
    have some."""
    header, rows = _table(lines)
    read = _long if VALUE in header else _wide
    columns = list(read(header, rows))
    if not columns:
        raise Unreadable(_no_history(header))
    unread = tuple(_unread(header))
    for name, cells, its_rows in columns:
        line = HistoryLine(
            id=name,
            direction=direction,
            values=[_cell(cell) for cell in cells],
            groups=_column(GROUP, header, its_rows),
            revisions=_column(REVISION, header, its_rows),
        )
        yield Read(line, unread)


def _unread(header: list[str]) -> Iterator[str]:
    ours = [ID, GROUP, REVISION]
    if VALUE in header or ID in header:
        ours.append(VALUE)
    return unread_columns(header, ours)


def _table(lines: Iterable[str]) -> tuple[list[str], list[list[str]]]:
    """The columns' names and the rows below them, each with a cell for every column."""
    numbered = [(at, row) for at, row in _rows(lines) if not _nothing(row)]
    while numbered and _blank(numbered[-1][1]):
        numbered.pop()  # as spreadsheets leave them
    start = next((at for at, (_, row) in enumerate(numbered) if not _blank(row)), None)
    if start is None:
        raise Unreadable(_EMPTY)
    first, names = numbered[start]
    header = [name.strip() for name in names]
    if all(_number(name) is not None for name in header):
        header = [f"column {number}" for number in range(1, len(header) + 1)]
    else:
        _check_names(first, header)
        numbered = numbered[start + 1 :]
    return header, [_fitted(at, row, len(header)) for at, row in numbered]


def _nothing(row: list[str]) -> bool:
    return not row or (len(row) == 1 and row[0].isspace())


def _blank(row: list[str]) -> bool:
    return not any(cell.strip() for cell in row)


def _check_names(at: int, header: list[str]) -> None:
    for name in (VALUE, ID, GROUP, REVISION):
        if header.count(name) > 1:
            raise Unreadable(f"Line {at} names more than one column {name!r}: rename the others.")


def _fitted(at: int, row: list[str], columns: int) -> list[str]:
    """A row with one cell for each column: missing empty cells are added, surplus ones dropped."""
    if any(cell.strip() for cell in row[columns:]):
        raise Unreadable(
            f"Line {at} has {formats.counted(len(row), 'cell')}, and the first line "
            f"{columns}: a comma inside a cell, or in a number, would make one more."
        )
    return [*row[:columns], *[""] * (columns - len(row))]


def _no_history(header: list[str]) -> str:
    sentence = "There is no history in the input: no column of it holds a number."
    if len(header) == 1 and any(separator in header[0] for separator in ";\t"):
        sentence += " Its columns must be separated by commas, not by semicolons or tabs."
    return sentence


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines)
    try:
        yield from ((reader.line_num, row) for row in reader)
    except csv.Error as problem:
        raise Unreadable(f"Line {reader.line_num} is no CSV ({problem}).") from None


Column = tuple[str, list[str], list[list[str]]]
"""A history's name, its cells, and the rows that they stand in."""


def _long(header: list[str], rows: list[list[str]]) -> Iterator[Column]:
    value, name = header.index(VALUE), header.index(ID) if ID in header else None
    histories: dict[str, list[list[str]]] = {}
    for row in rows:
        if name is not None and _blank(row):
            continue  # of no history
        histories.setdefault(row[name] if name is not None else VALUE, []).append(row)
    for history, history_rows in histories.items():
        yield history, [row[value] for row in history_rows], history_rows


def _wide(header: list[str], rows: list[list[str]]) -> Iterator[Column]:
    for at, name in enumerate(header):
        cells = [row[at] for row in rows]
        while cells and not cells[-1].strip():
            cells.pop()  # a shorter history than its neighbours'
        if name not in (GROUP, REVISION) and any(_number(cell) is not None for cell in cells):
            yield name, cells, rows[: len(cells)]


def _column(name: str, header: list[str], rows: list[list[str]]) -> list[str] | None:
    return [row[header.index(name)] for row in rows] if name in header else None


def _cell(cell: str) -> float | str | None:
    if not cell.strip():
        return None
    number = _number(cell)
    return cell if number is None else number


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


ALIKE = 0.85
"""Similarity from which a name counts as mistyped: ``groups``, or two letters swapped; not
``uid``."""


def unread_fields(names: Iterable[str], ours: Iterable[str]) -> Iterator[str]:
    """A sentence for each name of a JSON line's other fields that looks like one of ours."""
    known = list(ours)
    for name in names:
        meant = _meant(name, known)
        if meant:
            yield f"{name!r} was not read: the field is called {meant!r}."


def unread_columns(names: Iterable[str], ours: Iterable[str]) -> Iterator[str]:
    """A sentence for each name of a CSV file's other columns that looks like one of ours."""
    known = list(ours)
    for name in names:
        meant = None if name in known else _meant(name, [*known, _DIRECTION])
        if meant == _DIRECTION:
            yield f"{name!r} is no direction: --direction says it for all of a CSV file."
        elif meant:
            yield f"{name!r} was not read as {meant!r}: that is what the column must be called."


_DIRECTION = "direction"


def _meant(name: str, known: list[str]) -> str | None:
    return next(iter(get_close_matches(name.lower(), known, 1, ALIKE)), None)
