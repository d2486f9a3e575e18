"""A file or folder to read: its size is looked at before its content."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final

from cli.formats.node import Node
from cli.formats.problem import FormatError

LARGEST: Final = 256 * 2**20
"""Bytes that a file, or all files read of a folder, may have."""
_OPENING: Final = 4_096
"""Bytes that are looked at before the whole of a document is read."""

_REST: Final = re.compile(r"[\w.+-]*\s*")
"""A number or a word that was cut off, or nothing."""


class Source:
    """The file that is being read, and a tally of what gave no point."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tally: Counter[str] = Counter()
        self._sizes: dict[Path, int] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """A clause for each kind of thing that gave no point, or was thinned."""
        return tuple(f"{count:,} {what}" for what, count in self.tally.items())

    @cached_property
    def is_folder(self) -> bool:
        """True for a folder, which a few tools write instead of a file."""
        return self.path.is_dir()

    @cached_property
    def opening(self) -> str:
        """The first characters of a file but for blanks; empty for a folder."""
        if self.is_folder:
            return ""
        with self.opened(self.path) as file:
            return file.read(_OPENING).decode("utf-8-sig", errors="replace").lstrip()

    @cached_property
    def text(self) -> str:
        """The whole text of a file that is one document; empty for a folder."""
        return "" if self.is_folder else self._text_of(self.path)

    @cached_property
    def document(self) -> Node | None:
        """The JSON document; None where the text does not begin as an object or a list."""
        return parsed(self.text, self.path) if self.opening[:1] in {"{", "["} else None

    def has(self, *keys: str) -> bool:
        """True for a JSON object that has all ``keys``."""
        return self.document is not None and self.document.is_object(*keys)

    @cached_property
    def first_line(self) -> Node | None:
        """The first line where it is a JSON object by itself, as in JSON lines."""
        lines = self.lines()
        first = next(lines, "")
        if not any(map(str.strip, lines)):
            return self.document
        try:
            return parsed(first, self.path) if first.startswith("{") else None
        except FormatError:
            return None

    def require_document(self) -> Node:
        """The JSON document; an error where there is none."""
        if self.document is None:
            raise FormatError("is no JSON.", self.path)
        return self.document

    def lines(self, newline: str = "\n") -> Iterator[str]:
        """The lines of a file with their ends, one at a time in memory; none of a folder."""
        if self.is_folder:
            return
        with (
            self.opened(self.path) as raw,
            io.TextIOWrapper(raw, "utf-8-sig", newline=newline) as file,
        ):
            try:
                yield from file
            except UnicodeDecodeError as problem:
                raise _no_text(
                    self.path, raw.tell() - len(problem.object) + problem.start
                ) from None

    def rows(self) -> Iterator[Node]:
        """The values of JSON lines; empty lines are skipped."""
        for number, line in enumerate(self.lines(), start=1):
            if line.strip():
                yield parsed(line.removesuffix("\n"), self.path, number)

    def other(self, path: Path) -> Node:
        """The JSON document in a further file, which counts towards the size."""
        return parsed(self._text_of(path), path)

    def opened(self, path: Path) -> BinaryIO:
        """Open a file of the source whose size, with the others', is allowed."""
        try:
            if not path.is_file():
                raise FormatError(
                    "is no file." if path.exists() else "there is no such file.", path
                )
            self._sizes[path] = path.stat().st_size
            if sum(self._sizes.values()) > LARGEST:
                raise FormatError(f"has more than {LARGEST // 2**20} MiB: split it.", path)
            return path.open("rb")
        except OSError as problem:
            raise FormatError(f"cannot be read: {problem.strerror}.", path) from None

    def _text_of(self, path: Path) -> str:
        with self.opened(path) as file:
            try:
                return file.read().decode("utf-8-sig")
            except UnicodeDecodeError as problem:
                raise _no_text(path, problem.start) from None


def _no_text(path: Path, byte: int) -> FormatError:
    return FormatError("is no text in UTF-8.", path, f"byte {byte}")


def parsed(text: str, path: Path, line: int | None = None) -> Node:
    """Parse JSON, in which NaN and Infinity may stand where no reader looks.

    Raises:
        FormatError: the text is cut off, holds a second document or is no JSON.
    """
    try:
        return Node(json.loads(text), path, key="" if line is None else f"line {line}")
    except json.JSONDecodeError as problem:
        place = f"line {line or problem.lineno}, column {problem.colno}"
        raise FormatError(_fault(problem, text), path, place) from None
    except RecursionError:
        raise FormatError("is nested too deeply.", path) from None
    except ValueError:
        raise FormatError("holds a number of thousands of digits.", path) from None


def _fault(problem: json.JSONDecodeError, text: str) -> str:
    if problem.msg == "Extra data":
        return "a second document begins here: keep each run in a file of its own."
    if problem.msg.startswith("Unterminated string") or _REST.fullmatch(text, problem.pos):
        return "the file ends in the middle: it was cut off."
    return f"is no JSON ({problem.msg})."
