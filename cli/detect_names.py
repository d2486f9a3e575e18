"""Names that were passed over, and differ so little from ours that they may have been meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

ALIKE = 0.85
"""``group`` and ``groups``, or two letters the wrong way round; ``uid`` is somebody's own."""


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
