"""Pages of a list, joined by opaque cursors that stay right while rows are added; and batches."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import orjson
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from service.schemas.errors import Invalid

T = TypeVar("T")
V = TypeVar("V")

MOST_BOUND = 500
"""Values in one statement: below what a database takes."""
_FOREIGN = "The cursor is not one of this list's; start again without it."


def batched(items: Sequence[T], size: int = MOST_BOUND) -> Iterator[Sequence[T]]:
    """Yield ``items`` in their order, ``size`` at a time; the last batch may be shorter."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items, and the cursor that gives the next ones; None at the end."""

    items: tuple[T, ...]
    next_cursor: str | None

    def shown(self, items: Iterable[V]) -> Page[V]:
        """The same page with its items as somebody wants to see them."""
        return Page(tuple(items), self.next_cursor)


def newest_first(
    session: Session,
    model: type[T],
    order: InstrumentedAttribute[str],
    conditions: Sequence[ColumnElement[bool]],
    after: str | None,
    limit: int,
) -> Page[T]:
    """Rows of ``model`` that meet ``conditions``; ``after`` is the previous page's cursor.

    ``order`` is their id, which orders them by time (`service.database.session.new_id`).

    Raises:
        Invalid: the cursor is not one of this list.
    """
    query = select(model).where(*conditions).order_by(order.desc()).limit(limit + 1)
    if after is not None:
        query = query.where(order < keys(after, 1)[0])
    rows = session.scalars(query).all()
    more = cursor(getattr(rows[limit - 1], order.key)) if len(rows) > limit else None
    return Page(tuple(rows[:limit]), more)


def matching(asked: Mapping[InstrumentedAttribute[Any], object]) -> list[ColumnElement[bool]]:
    """Conditions that columns equal what was asked of each; None asks for nothing."""
    return [column == value for column, value in asked.items() if value is not None]


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
        values = orjson.loads(base64.urlsafe_b64decode(padded))
    except (binascii.Error, ValueError):
        values = None
    right = isinstance(values, list) and len(values) == count
    if not right or not all(isinstance(key, str) and "\0" not in key for key in values):
        raise Invalid(_FOREIGN)
    return tuple(values)


def instant(key: str) -> datetime:
    """Read a sort key that is a time.

    Raises:
        Invalid: it is none.
    """
    try:
        return datetime.fromisoformat(key).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid(_FOREIGN) from None
