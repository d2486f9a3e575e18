"""Whether the revisions that come with a history say that its values are in order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise


def disorder(revisions: Sequence[str]) -> str | None:
    """One sentence for a person if the values are not in the order of their revisions, or None.

    Numbers and dates have an order; of other names only one can be told: values of one revision
    stand together.
    """
    keys = _numbers(revisions) or _dates(revisions)
    if keys is not None:
        for at, (before, after) in enumerate(pairwise(keys), start=1):
            if after < before:
                return (
                    f"Revision {revisions[at]!r} comes after {revisions[at - 1]!r}: "
                    "sort the values by revision, oldest first."
                )
    return _scattered(revisions)


def repeated(revisions: Sequence[str]) -> str | None:
    """One sentence if some revision has several values, or None."""
    more = len(revisions) - len(set(revisions))
    if not more:
        return None
    return f"{more} values repeat the revision before them; each value is judged as a point."


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


def _dates(revisions: Sequence[str]) -> list[float] | None:
    """Seconds; a date without a time zone is taken for UTC, as long as it is the same for all."""
    try:
        times = [datetime.fromisoformat(revision) for revision in revisions]
    except ValueError:
        return None
    return [(time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() for time in times]
