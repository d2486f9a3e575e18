"""A value of a JSON document that knows its place, so that every error can name it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cli.formats.problem import FormatError
from cli.formats.text import names_secret, printable, short

_KINDS: Final = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
_YEAR_10_000: Final = 253_402_300_800


class Node:
    """One value with the file and the keys that lead to it."""

    __slots__ = ("_key", "_parent", "path", "value")

    def __init__(
        self, value: object, path: Path, parent: Node | None = None, key: str | int = ""
    ) -> None:
        self.value, self.path, self._parent, self._key = value, path, parent, key

    @property
    def place(self) -> str:
        """The keys from the document's top, as in ``benchmarks[3].stats.mean``."""
        if self._parent is None:
            return str(self._key)
        before = self._parent.place
        if isinstance(self._key, int):
            return f"{before}[{self._key}]"
        joint = ", " if self._parent._parent is None else "."
        return f"{before}{joint}{short(self._key)}" if before else short(self._key)

    def refuse(self, what: str) -> FormatError:
        """Make the error that names this place."""
        return FormatError(what, self.path, self.place)

    def _must_be(self, kind: str) -> FormatError:
        return self.refuse(f"must be {kind}, and is {_KINDS.get(type(self.value), 'a number')}.")

    def is_object(self, *keys: str) -> bool:
        """True for an object that has all ``keys``."""
        return isinstance(self.value, dict) and all(key in self.value for key in keys)

    def __getitem__(self, key: str) -> Node:
        if not isinstance(self.value, dict):
            raise self._must_be("an object")
        if key not in self.value:
            raise self.refuse(f"has no {key!r}.")
        return Node(self.value[key], self.path, self, key)

    def get(self, key: str) -> Node | None:
        """The value of ``key``; None where it is missing or null."""
        if not isinstance(self.value, dict):
            raise self._must_be("an object")
        value = self.value.get(key)
        return None if value is None else Node(value, self.path, self, key)

    def below(self, key: str) -> Node:
        """The object of ``key``; an empty one where it is missing or null."""
        return self.get(key) or Node({}, self.path, self, key)

    def text_of(self, key: str) -> str | None:
        """The text of ``key``; None where it is missing or null."""
        node = self.get(key)
        return node.text() if node else None

    def moment_of(self, key: str, *, naive_is_utc: bool = False) -> datetime | None:
        """The time that the text of ``key`` says; None where it is missing or null."""
        node = self.get(key)
        return node.moment(naive_is_utc=naive_is_utc) if node else None

    def items(self) -> Iterator[tuple[str, Node]]:
        """Keys and values of an object."""
        if not isinstance(self.value, dict):
            raise self._must_be("an object")
        for key, value in self.value.items():
            yield key, Node(value, self.path, self, key)

    def elements(self) -> Iterator[Node]:
        """Values of a list."""
        if not isinstance(self.value, list):
            raise self._must_be("a list")
        for index, value in enumerate(self.value):
            yield Node(value, self.path, self, index)

    def text(self) -> str:
        """The text that this is."""
        if not isinstance(self.value, str):
            raise self._must_be("text")
        return self.value

    def is_number(self) -> bool:
        """True for a number, whatever it is."""
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)

    def finite(self) -> float | None:
        """The finite number that this is; None for all else."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            return None
        try:
            number = float(self.value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None

    def number(self) -> float:
        """The finite number that this is."""
        number = self.finite()
        if number is None:
            raise (
                self.refuse("is no finite number.")
                if self.is_number()
                else self._must_be("a number")
            )
        return number

    def numbers(self) -> list[float]:
        """The finite numbers of a list."""
        values = self.value if isinstance(self.value, list) else None
        if values and all(type(value) is float and math.isfinite(value) for value in values):
            return list(values)
        return [element.number() for element in self.elements()]

    def moment(self, *, naive_is_utc: bool = False) -> datetime:
        """The time that this text says, with its offset from UTC."""
        try:
            moment = datetime.fromisoformat(self.text())
        except ValueError:
            raise self.refuse(f"{short(self.text())!r} is no time.") from None
        if moment.tzinfo is None and not naive_is_utc:
            raise self.refuse("needs the time's offset from UTC, as in 2026-11-20T01:02:03Z.")
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def moment_after_1970(self, per_second: int = 1000) -> datetime:
        """The time that is this number of milliseconds after 1970, or of other parts."""
        seconds = self.number() / per_second
        if not 0 <= seconds < _YEAR_10_000:
            raise self.refuse("is no time after 1970 in its unit.")
        return datetime.fromtimestamp(seconds, UTC)

    def as_text(self) -> str:
        """This value as one line: text as it is, all else as JSON."""
        if isinstance(self.value, str):
            return printable(self.value)
        return printable(json.dumps(self.value, ensure_ascii=False))

    def facts(self, without: tuple[str, ...] = ()) -> dict[str, str]:
        """The scalars and lists below this object by their dotted keys.

        Nulls are left out, and what a key such as ``hf_token`` says is secret.
        """
        found: dict[str, str] = {}
        for key, node in self.items():
            if key in without or node.value is None or names_secret(key):
                continue
            if isinstance(node.value, dict):
                found |= {f"{printable(key)}.{k}": v for k, v in node.facts().items()}
            else:
                found[printable(key)] = node.as_text()
        return found
