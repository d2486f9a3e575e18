"""Reads JSON in the one way that every other reader agrees with, or refuses it.

RFC 8259 leaves open what becomes of a repeated name, of a number that no float can hold and of
half a surrogate pair, and parsers differ; here each is refused, as RFC 7493 (I-JSON) asks. The
bounds come before pydantic, because a small body can become a very large tree. Why jiter and a
walk: docs/adr/0007.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

import jiter

from benchmarks.contracts import bounds
from service.errors import MalformedDocument

DEPTH = 32
"""Arrays and objects within each other; a result needs nine."""
KEYS = 100_000
"""Names in all objects together; the largest result that the contract allows has some 40,000."""
VALUES = bounds.SIGNS
"""They bound the tree before any of it is made."""
_INTEGERS = range(-(2**63), 2**63)
_FLOATS = {float}
_MANY = 8
"""Values from which on a list is worth a look at all its types at once."""
_INFINITE = "A number is too large for a 64-bit float."
_NUL = "A string or a field's name holds U+0000; leave it out."
_BOM = b"\xef\xbb\xbf"


def read(body: bytes) -> Any:
    """Parse a JSON document of UTF-8 bytes.

    Raises:
        MalformedDocument: it is no JSON, it can be read in more than one way, or it is larger
            inside than the bounds above.
    """
    if body.startswith(_BOM):
        raise MalformedDocument("The body begins with a byte order mark; send UTF-8 without one.")
    if bounds.signs(body) > VALUES:
        raise MalformedDocument("The body holds too many values; send less at once.")
    document = _parse(body)
    check(document)
    return document


def _parse(body: bytes) -> Any:
    try:
        # Its own limit of 200 levels comes before ours and keeps the stack small.
        return jiter.from_json(
            body, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys"
        )
    except ValueError as error:
        raise MalformedDocument(_fault(str(error))) from None


def _fault(said: str) -> str:
    """Word the parser's error without the name that it quotes: no answer repeats what was sent."""
    place = said.rpartition(" at line ")[2]
    if said.startswith("Detected duplicate key"):
        return f"The body names a field twice in one object, at line {place}; name it once."
    reason = said.rpartition(" at line ")[0] or said
    return f"The body is not well-formed JSON in UTF-8: {reason[:100]} at line {place[:40]}."


def check(document: Any) -> None:
    """Hold a parsed document to the bounds, level by level.

    Raises:
        MalformedDocument: it is too deep or has too many names, a number is not finite or has
            more than 64 bits, or a string holds NUL.
    """
    keys = 0
    level: list[Any] = [document]
    for _ in range(DEPTH):
        below: list[Any] = []
        for container in level:
            if type(container) is dict:
                keys += len(container)
                if "\0" in "".join(container):
                    raise MalformedDocument(_NUL)
                _check_values(container.values(), below)
            elif type(container) is not list:
                _check_values((container,), below)  # the document is one value
            elif len(container) < _MANY or set(map(type, container)) != _FLOATS:
                _check_values(container, below)
            elif not all(map(isfinite, container)):  # measurements need no loop of Python's
                raise MalformedDocument(_INFINITE)
        if keys > KEYS:
            raise MalformedDocument("The body has too many fields; send less at once.")
        if not below:
            return
        level = below
    raise MalformedDocument(f"The body is nested deeper than {DEPTH} levels; make it flatter.")


def _check_values(values: Iterable[Any], below: list[Any]) -> None:
    for value in values:
        kind = type(value)
        if kind is str:
            if "\0" in value:
                raise MalformedDocument(_NUL)
        elif kind is dict or kind is list:
            below.append(value)
        elif kind is int:
            if value not in _INTEGERS:
                raise MalformedDocument("A whole number has more than 64 bits.")
        elif kind is float and not isfinite(value):
            raise MalformedDocument(_INFINITE)
