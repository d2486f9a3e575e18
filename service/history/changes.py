"""Stores the changes of a series: each row is one change for as long as the history has it.

A series is analysed anew with each point: a change may move by a few points, and its size is
estimated again. It stays the same change. `analysis.store` calls `store` whenever a series was
analysed: the only place where computed changes are matched with stored ones. `adopt` does the same
for a change that was measured again before the history shows it. Everybody else refers to a change
by its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import Session

from service import models
from service.analysis.detection.alarms import PATIENCE
from service.analysis.detection.change import ChangePoint, Noise
from service.analysis.detection.support import Supports
from service.analysis.detection.support import confirmed as support_of
from service.analysis.detection.windows import SAME, Detection
from service.analysis.recovery import newest_return
from service.analysis.statement import Statement
from service.database.session import new_id
from service.history import replicates
from service.history.series_history import (
    EDGE,
    PlacedChange,
    RecentPoints,
    between,
    estimate_of,
    place,
    without_worker_offset,
)

RECENT = 60
"""Points. A change that lies further back when it is first seen (an imported history, say) is
shown where it is and announced to nobody."""
ALIKE = 2.0
"""The first estimate of an effect, from four points, is seldom off by more than this factor."""
StoredChange = tuple[models.ChangeRow, models.FindingSeries | None, models.FindingRow | None]
"""A change, and the finding that is about it, if there is one."""


def load_stored(session: Session, series: Sequence[str]) -> Mapping[str, Sequence[StoredChange]]:
    """Load the changes of some series, by series: present ones, and those that may come back."""
    query = (
        select(models.ChangeRow, models.FindingSeries, models.FindingRow)
        .outerjoin(models.FindingSeries, models.FindingSeries.change_id == models.ChangeRow.id)
        .outerjoin(models.FindingRow, models.FindingRow.id == models.FindingSeries.finding_id)
        .where(models.ChangeRow.series_id.in_(series))
        .order_by(models.ChangeRow.first_bad_at, models.ChangeRow.id)
        .execution_options(populate_existing=True)
    )
    found: dict[str, list[StoredChange]] = {series_id: [] for series_id in series}
    for row, link, finding in session.execute(query):
        found[row.series_id].append((row, link, finding))
    return found


def _relevant(tail: RecentPoints, stored: Iterable[StoredChange]) -> list[StoredChange]:
    """Leave out what is gone and lies before the newest points."""
    if not (tail.first and tail.points):
        return list(stored)
    since = tail.points[0].revision_at
    return [one for one in stored if one[0].present or one[0].first_bad_at >= since]


def known_change(
    session: Session, tail: RecentPoints, computed: Sequence[PlacedChange], stored: StoredChange
) -> KnownChange | None:
    """Say by what a stored change is recognised; None if it lies before the newest points."""
    row, link, finding = stored
    index = tail.place_of(row.first_bad_result, row.first_bad_at)
    if index is None:
        return None
    figures = link or estimate_of(row)
    return KnownChange(
        id=row.id,
        index=index,
        since=after_last_good(tail, row.last_good, index),
        effect=figures.effect,
        low=figures.effect_low,
        high=figures.effect_high,
        reported=link is not None,
        closed=finding is not None and finding.closed_at is not None,
        only=_only(session, row, computed, tail),
    )


def begin_anew(
    session: Session,
    tail: RecentPoints,
    values: Sequence[float],
    computed: Sequence[PlacedChange],
    closed: tuple[KnownChange, models.FindingSeries, models.FindingRow],
) -> dict[int, PlacedChange]:
    """Find the computed changes, by their place in ``computed``, that began after a closed one.

    A drop that is back some nights after its revert is one level to the detector, which begins with
    the first drop. If the finding about that was closed meanwhile, the change begins anew.
    ``values`` are those of the points without the offsets of their machines.
    """
    old, link, finding = closed
    count = tail.first + len(tail.points)
    ends = [*(change.change.index for change in computed), count][1:]
    anew = {}
    for at, (change, end) in enumerate(zip(computed, ends, strict=True)):
        if not old.near(change) or count - change.change.index > RECENT:
            continue
        patience = 1 if end == count else PATIENCE  # at the end, `rules.stands` says when
        part = values[old.index - tail.first : end - tail.first]
        back = newest_return(part, link.before, link.after, patience)
        if back is None or not _is_news(session, finding, tail, old.index, back):
            continue
        begin = max(change.change.index, old.index + back.stop)
        point = replace(change.change, index=begin)
        anew[at] = change if point == change.change else between(tail, point, begin - tail.first)
    return anew


def after_last_good(tail: RecentPoints, last_good: str, index: int) -> int:
    """Give the number of the point after the last one of a revision before a point.

    That point itself, ``index``, where the revision has none.
    """
    earlier = range(index - 1, tail.first - 1, -1)
    good = (at for at in earlier if tail.points[at - tail.first].revision == last_good)
    return next(good, index - 1) + 1


def _only(
    session: Session, row: models.ChangeRow, computed: Sequence[PlacedChange], tail: RecentPoints
) -> frozenset[str] | None:
    """First points of changes that may be the one of ``row``; None if all may.

    If its own first point was excluded, what came in later is another change.
    """
    if any(point.result_id == row.first_bad_result for point in tail.points):
        return None
    excluded = session.scalars(
        select(models.Exclusion.excluded_at).where(
            models.Exclusion.result_id == row.first_bad_result, models.Exclusion.undone_at.is_(None)
        )
    ).first()
    if excluded is None:
        return None
    firsts = [change.first_bad_result for change in computed]
    return frozenset(firsts) - replicates.received_after(session, firsts, excluded)


def _is_news(
    session: Session, finding: models.FindingRow, tail: RecentPoints, index: int, back: range
) -> bool:
    """Return True if the old level came back after a finding's opening and went after its closing.

    What lay there before was known to whoever opened or closed it. ``back`` counts from ``index``.
    """
    assert finding.closed_at is not None
    ids = [point.result_id for point in tail.points[index - tail.first :]]
    over = ids[back.start : back.stop]
    fresh = replicates.received_after(session, over, finding.opened_at) == frozenset(over)
    return fresh and bool(replicates.received_after(session, [ids[back.stop]], finding.closed_at))


@dataclass(frozen=True, slots=True)
class KnownChange:
    """A stored change, with all that it takes to recognise it."""

    id: str
    index: int
    """Number of its first point, among the points of now."""
    since: int
    """Number of the point after its last good one: points that came in late lie in between."""
    effect: float
    low: float
    high: float
    reported: bool = False
    """A finding is about it, so that it is recognised before others are."""
    closed: bool = False
    """That finding is closed: a change of another size is another one."""
    only: frozenset[str] | None = None
    """First points of the changes that it may be; None if it may be any."""
    not_at: frozenset[int] = frozenset()
    """Numbers of points at which another change begins."""

    def apart(self, change: PlacedChange) -> int:
        """Count the points by which a change lies outside of where this one may lie."""
        index = change.change.index
        return max(self.since - index, index - self.index, 0)

    def near(self, change: PlacedChange) -> bool:
        """Return True if a change agrees with this one in place and direction."""
        return self.apart(change) <= SAME and (change.change.effect > 0) == (self.effect > 0)

    def may_be(self, change: PlacedChange) -> bool:
        """Return True if nothing tells a change from this one."""
        point = change.change
        overlap = self.low <= point.effect_high and point.effect_low <= self.high
        return (
            self.near(change)
            and (not self.closed or overlap or alike(self.effect, point.effect))
            and (self.only is None or change.first_bad_result in self.only)
            and point.index not in self.not_at
        )


def alike(one: float, other: float) -> bool:
    """Return True if two effects may be one: of one direction, and neither over twice the other."""
    return one * other > 0 and max(abs(one), abs(other)) <= ALIKE * min(abs(one), abs(other))


def identities(
    changes: Sequence[PlacedChange], known: Sequence[KnownChange]
) -> list[KnownChange | None]:
    """Give the stored change that each of ``changes`` is, or None if it is a new one.

    Reported changes come first, then the nearest pairs; two changes never become one.
    """
    pairs = sorted(
        (not old.reported, old.apart(new), abs(new.change.index - old.index), at, old.id)
        for at, new in enumerate(changes)
        for old in known
        if old.may_be(new)
    )
    matches: list[KnownChange | None] = [None] * len(changes)
    left = {old.id: old for old in known}
    for *_, at, name in pairs:
        if matches[at] is None and name in left:
            matches[at] = left.pop(name)
    return matches


def in_order(rows: Iterable[models.ChangeRow]) -> tuple[PlacedChange, ...]:
    """The changes that the analysis of a series shows, in their order."""
    return tuple(sorted(map(PlacedChange.of, rows), key=lambda change: change.change.index))


def store(
    session: Session,
    tail: RecentPoints,
    analysis: Detection,
    settled: Iterable[ChangePoint],
    stored: Iterable[StoredChange],
    now: datetime,
) -> None:
    """Give each computed change the id of the stored change that it is, or a new one.

    The analysis of the series is locked. ``settled`` are change points of windows that were not
    analysed anew: what they say of a change stays as it is.
    """
    stored = _relevant(tail, stored)
    shown = {estimate_of(row): row.id for row, _, _ in stored if row.present}
    same = frozenset(settled).intersection(analysis.change_points, shown)
    stored = [one for one in stored if one[0].id not in {shown[point] for point in same}]
    points = [point for point in analysis.change_points if point not in same]
    computed = [place(tail, point, analysis.noise) for point in points if point.index > tail.first]
    computed, known = _begun_anew(session, tail, analysis.noise, computed, stored)
    rows = {row.id: row for row, _, _ in stored}
    for number, (change, old) in enumerate(zip(computed, identities(computed, known), strict=True)):
        row = models.ChangeRow(id=new_id(now, number)) if old is None else rows.pop(old.id)
        _write(session, row, tail.series_id, change)
    _take_away(session, list(rows))


def adopt(
    session: Session, tail: RecentPoints, change: PlacedChange, now: datetime
) -> PlacedChange:
    """Give a change that was measured again its id, and its place if the history shows it by now.

    Between which revisions it lies is known, so only a change right there is the same; one that a
    finding is about is another one, or nobody would have measured again.
    """
    session.get(models.AnalysisRow, tail.series_id, with_for_update=True)
    everything = load_stored(session, [tail.series_id])[tail.series_id]
    stored = [one for one in _relevant(tail, everything) if one[1] is None]
    known = [known_change(session, tail, (change,), one) for one in stored]
    near = [one for one in known if one is not None and one.apart(change) <= EDGE]
    (old,) = identities([change], near)
    if old is not None:
        row = next(row for row, _, _ in stored if row.id == old.id)
        return PlacedChange.of(row) if row.present else replace(change, id=row.id)
    row = models.ChangeRow(id=new_id(now))
    _write(session, row, tail.series_id, change, present=False)
    return replace(change, id=row.id)


BESIDE = ("differ_again", "differ_elsewhere")
"""What is said where both revisions were measured beside each other and differed."""


def with_confirmed(session: Session, series: Sequence[str]) -> frozenset[str]:
    """Give the ids of those of some series that have a confirmed change."""
    row = models.ConfirmationRow
    query = select(row.series_id).where(
        row.series_id.in_(series), row.state == models.ConfirmationState.CONFIRMED
    )
    return frozenset(session.scalars(query))


def confirmed(session: Session, tail: RecentPoints) -> Supports:
    """Load where newest points begin changes that were confirmed beside each other."""
    row = models.ConfirmationRow
    query = select(row.first_bad_result, row.first_bad_at, row.before, row.after, row.says).where(
        row.series_id == tail.series_id, row.state == models.ConfirmationState.CONFIRMED
    )
    supports = {}
    for result_id, at, before, after, says in session.execute(query):
        index = tail.place_of(result_id, at)
        if index is not None and Statement.read(says).kind in BESIDE:
            supports[index] = support_of(after / before - 1.0)
    return supports


def forget(session: Session, series_id: str) -> None:
    """Say that the analysis of a series shows no change."""
    shown = models.ChangeRow.series_id == series_id, models.ChangeRow.present
    _take_away(session, session.scalars(select(models.ChangeRow.id).where(*shown)).all())


def _begun_anew(
    session: Session,
    tail: RecentPoints,
    noise: Noise | None,
    computed: Sequence[PlacedChange],
    stored: Sequence[StoredChange],
) -> tuple[list[PlacedChange], list[KnownChange]]:
    """Give the changes, those that begin anew at their own place, and what they may be."""
    values = without_worker_offset(tail, noise.machine_offsets if noise else {})
    changes, known = list(computed), []
    for row, link, finding in stored:
        old = known_change(session, tail, changes, (row, link, finding))
        if old is None:
            continue
        if old.closed and link is not None and finding is not None:
            anew = begin_anew(session, tail, values, changes, (old, link, finding))
            changes = [anew.get(at, change) for at, change in enumerate(changes)]
            old = replace(old, not_at=frozenset(new.change.index for new in anew.values()))
        known.append(old)
    return changes, known


def _write(
    session: Session,
    row: models.ChangeRow,
    series_id: str,
    change: PlacedChange,
    *,
    present: bool = True,
) -> None:
    row.series_id, row.present = series_id, present
    row.last_good, row.first_bad = change.last_good, change.first_bad
    row.first_bad_at, row.first_bad_result = change.first_bad_at, change.first_bad_result
    row.estimate = asdict(change.change)
    session.add(row)
    session.flush()


def _take_away(session: Session, ids: Sequence[str]) -> None:
    """Mark changes as gone; those that nobody refers to are deleted."""
    if not ids:
        return  # making the statements takes longer than most series need otherwise
    gone = models.ChangeRow.id.in_(ids)
    of_finding = select(models.FindingSeries.change_id).where(
        models.FindingSeries.change_id == models.ChangeRow.id
    )
    of_row = select(models.ConfirmationRow.id).where(
        models.ConfirmationRow.change_id == models.ChangeRow.id
    )
    named = or_(of_finding.exists(), of_row.exists())
    session.execute(update(models.ChangeRow).where(gone).values(present=False))
    session.execute(delete(models.ChangeRow).where(gone, ~named))
