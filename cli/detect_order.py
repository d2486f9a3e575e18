"""A check that a history's values are in order, by the revisions that come with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

_DIGITS = 9
_RELEASE = re.compile(rf"([0-9]{{1,{_DIGITS}}})\.([0-9]{{1,{_DIGITS}}})")


def disorder(revisions: Sequence[str]) -> str | None:
    """One sentence if the values are not in the order of their revisions, or None.

    Numbers and dates have an order. Of other names, only values of one revision must stand
    together. Numbers with one point may be releases, of which 2.10 comes after 2.9.
    """
    orders = [_numbers(revisions), _releases(revisions), _dates(revisions)]
    falls = [_first_fall(keys) for keys in orders if keys is not None]
    if falls and None not in falls:
        at = max(fall for fall in falls if fall is not None)
        return (
            f"Revision {revisions[at]!r} comes after {revisions[at - 1]!r}: "
            "sort the values by revision, oldest first."
        )
    return _scattered(revisions)


def _first_fall(keys: Sequence[float]) -> int | None:
    pairs = enumerate(pairwise(keys), start=1)
    return next((at for at, (before, after) in pairs if after < before), None)


def repeated(revisions: Sequence[str]) -> str | None:
    """One sentence if some revision has several values, or None."""
    more = len(revisions) - len(set(revisions))
    if not more:
        return None
    return f"{more} values repeat the revision before them; each value is analysed as a point."


def _scattered(revisions: Sequence[str]) -> str | None:
    last: dict[str, int] = {}
    for at, revision in enumerate(revisions):
        if last.get(revision, at - 1) != at - 1:
            return (
                f"Revision {revision!r} stands at {last[revision]} and again at {at}: "
                "values of one revision belong together, in the order of revisions."
            )
        last[revision] = at
    return None


def _numbers(revisions: Sequence[str]) -> list[float] | None:
    try:
        return [float(revision) for revision in revisions]
    except ValueError:
        return None


def _releases(revisions: Sequence[str]) -> list[int] | None:
    matches = [_RELEASE.fullmatch(revision) for revision in revisions]
    if not all(matches):
        return None
    return [int(one[1]) * 10**_DIGITS + int(one[2]) for one in matches if one]


def _dates(revisions: Sequence[str]) -> list[float] | None:
    try:
        times = [datetime.fromisoformat(revision) for revision in revisions]
    except ValueError:
        return None
    return [(time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() for time in times]
