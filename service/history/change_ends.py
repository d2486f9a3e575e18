"""The revisions between which a change lies, and whether one odd measurement may say so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median, median_high, median_low

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from service.history.queries import COUNTED
from service.history.series_history import estimate_of
from service.models import ChangeRow, Point

TWICE = 2
LEAST_SHARE = 0.5
"""Of a suspected change, which has to be left when both ends are measured again: a surprise looks
larger than it is, and what is left of a fluke when it happens to be confirmed is small."""


def ends_of(session: Session, change: ChangeRow) -> tuple[str, str]:
    """The last good and the first bad revision of a change.

    A change between two measurements of one revision lies before or after it, as most of them say.
    """
    name, level = change.first_bad, estimate_of(change)
    if change.last_good != name:
        return change.last_good, name
    usual = median(_values(session, change, [name])[name] or [level.after])
    is_bad = abs(usual - level.after) < abs(usual - level.before)
    beside = _beside(change, before=is_bad)
    other = session.scalars(beside).first() or name
    return (other, name) if is_bad else (name, other)


def doubtful_end(
    session: Session, change: ChangeRow, ends: tuple[str, str], confirmed: Collection[str | None]
) -> str | None:
    """Which of its ends puts a change there by single measurements alone; None if neither does.

    ``confirmed`` are revisions that were measured again side by side.
    """
    values = _values(session, change, ends)
    return doubtful(*ends, values, estimate_of(change).effect, confirmed)


def doubtful(
    good: str,
    bad: str,
    values: Mapping[str, Sequence[float]],
    effect: float,
    confirmed: Collection[str | None] = (),
) -> str | None:
    """As `doubtful_end`, by the values that were measured at each end.

    Of two values the one counts that is nearer to the other end, so that one odd measurement
    decides nothing; of three the median.
    """
    least = {end: 1 if end in confirmed else TWICE for end in (good, bad)}
    if few := [end for end in (bad, good) if len(values[end]) < least[end]]:
        return few[0]
    sides = (median_high, median_low) if effect > 0 else (median_low, median_high)
    before, after = sides[0](values[good]), sides[1](values[bad])
    if before > 0 and effect and (after / before - 1.0) / effect >= LEAST_SHARE:
        return None
    return min((bad, good), key=lambda end: len(values[end]))


def _values(
    session: Session, change: ChangeRow, revisions: Collection[str]
) -> dict[str, list[float]]:
    query = select(Point.revision, Point.value).where(
        Point.series_id == change.series_id, Point.revision.in_(revisions), *COUNTED
    )
    values: dict[str, list[float]] = {name: [] for name in revisions}
    for name, value in session.execute(query):
        values[name].append(value)
    return values


def _beside(change: ChangeRow, *, before: bool) -> Select[str]:
    """The revision of the series next to the one in which a change lies."""
    at, place = change.first_bad_at, Point.revision_at
    beside = select(Point.revision).where(Point.series_id == change.series_id, *COUNTED)
    if before:
        return beside.where(place < at).order_by(place.desc()).limit(1)
    return beside.where(place > at).order_by(place).limit(1)
