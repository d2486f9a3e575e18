"""Pages of a list, joined by opaque cursors that stay right while rows are added."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import orjson

from service.errors import Invalid

T = TypeVar("T")

_FOREIGN = "The cursor is not one of this list's; start again without it."


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items, and the cursor that gives the next ones; None at the end."""

    items: tuple[T, ...]
    next_cursor: str | None


def cursor(*keys: str) -> str:
    """Write down the sort keys of a page's last row."""
    return base64.urlsafe_b64encode(orjson.dumps(keys)).decode().rstrip("=")


def keys(text: str, count: int) -> tuple[str, ...]:
    """Read ``count`` sort keys back.

    Raises:
        Invalid: the text is not a cursor of this list.
    """
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        found = orjson.loads(base64.urlsafe_b64decode(padded))
    except (binascii.Error, ValueError):
        found = None
    right = isinstance(found, list) and len(found) == count
    if not right or not all(isinstance(key, str) and "\0" not in key for key in found):
        raise Invalid(_FOREIGN)
    return tuple(found)


def instant(key: str) -> datetime:
    """Read a sort key that is a time.

    Raises:
        Invalid: it is none.
    """
    try:
        return datetime.fromisoformat(key).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid(_FOREIGN) from None
