"""A file or folder to read: its size is looked at before its content."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from cli.formats.node import Node
from cli.formats.problem import FormatError

LARGEST: Final = 256 * 2**20
"""Bytes that a file, or all files read of a folder, may have."""


_REST: Final = re.compile(r"[\w.+-]*\s*")
"""A number or a word that was cut off, or nothing."""


class Source:
    """The file that is being read, and a tally of what gave no point."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tally: Counter[str] = Counter()
        self._taken = 0

    @cached_property
    def is_folder(self) -> bool:
        """True for a folder, which a few tools write instead of a file."""
        return self.path.is_dir()

    @cached_property
    def content(self) -> bytes:
        """The file's bytes; none of a folder."""
        return b"" if self.is_folder else self._bytes_of(self.path)

    @cached_property
    def text(self) -> str:
        """The file's text; empty for a folder."""
        return self._decoded(self.content, self.path)

    @cached_property
    def document(self) -> Node | None:
        """The JSON document; None where the text does not begin as an object or a list."""
        return parsed(self.text, self.path) if self.text.lstrip()[:1] in {"{", "["} else None

    def has(self, *keys: str) -> bool:
        """True for a JSON object that has all ``keys``."""
        return self.document is not None and self.document.is_object(*keys)

    @cached_property
    def first_line(self) -> Node | None:
        """The first line where it is a JSON object by itself, as in JSON lines."""
        first, _, rest = self.text.partition("\n")
        if not rest.strip():
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

    def lines(self) -> Iterator[Node]:
        """The values of JSON lines; empty lines are skipped."""
        for number, line in enumerate(self.text.split("\n"), start=1):
            if line.strip():
                yield parsed(line, self.path, number)

    def other(self, path: Path) -> Node:
        """The JSON document in a further file, which counts towards the size."""
        return parsed(self._decoded(self._bytes_of(path), path), path)

    def _bytes_of(self, path: Path) -> bytes:
        try:
            if not path.is_file():
                raise FormatError(
                    "is no file." if path.exists() else "there is no such file.", path
                )
            self._taken += path.stat().st_size
            if self._taken > LARGEST:
                raise FormatError(f"has more than {LARGEST // 2**20} MiB: split it.", path)
            return path.read_bytes()
        except OSError as problem:
            raise FormatError(f"cannot be read: {problem.strerror}.", path) from None

    @staticmethod
    def _decoded(content: bytes, path: Path) -> str:
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            raise FormatError("is no text in UTF-8.", path, f"byte {problem.start}") from None


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
