"""Tells a change that came again from the one that somebody was told of before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.analysis.detection.alarms import PATIENCE
from service.findings import rules
from service.findings.rules import KnownChange
from service.findings.types import ACTIVE
from service.history.placed_changes import PlacedChange, SeriesAnalysis
from service.history.recent import RecentPoints, without_worker_offset
from service.models import Exclusion, FindingRow, FindingSeries, ResultRow

Known = tuple[FindingSeries, FindingRow, KnownChange]
"""What a finding says of a series, and by what its change is known again."""


def tell_apart(
    session: Session, standing: SeriesAnalysis, tail: RecentPoints
) -> tuple[SeriesAnalysis, tuple[Known, ...]]:
    """Give the analysis of a series, with changes that begin anew set apart, and the known changes.

    A drop that is back some nights after its revert is one level to the detector, which begins with
    the first drop. If the finding about that was closed meanwhile, the change begins anew.
    """
    found: list[Known] = []
    for link, row in links_of(session, standing.series_id):
        index = tail.place_of(link.first_bad_result, link.first_bad_at)
        if index is None:
            continue
        told = KnownChange(
            index=index,
            effect=link.effect,
            low=link.effect_low,
            high=link.effect_high,
            closed=row.state not in ACTIVE,
            only=_only(session, link, standing, tail),
            since=_after_last_good(tail, row, index),
        )
        if told.closed:
            standing, told = _parted(session, standing, tail, (link, row, told))
        found.append((link, row, told))
    return standing, tuple(found)


def _after_last_good(tail: RecentPoints, row: FindingRow, index: int) -> int:
    """Number of the first point after the last good one, both as a finding names them."""
    earlier = range(index - 1, tail.first - 1, -1)
    good = (at for at in earlier if tail.points[at - tail.first].revision == row.last_good)
    return next(good, index - 1) + 1


def links_of(session: Session, series_id: str) -> Sequence[tuple[FindingSeries, FindingRow]]:
    """Each finding about a series, and what it says of it."""
    wanted = (
        select(FindingSeries, FindingRow)
        .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
        .where(FindingSeries.series_id == series_id)
        .order_by(FindingSeries.first_bad_at, FindingRow.id)
    )
    return [(link, row) for link, row in session.execute(wanted)]


def _only(
    session: Session, link: FindingSeries, standing: SeriesAnalysis, tail: RecentPoints
) -> frozenset[str] | None:
    """First points of changes that may be the one of ``link``; None if all may.

    If its own first point was excluded, what came in later is another change.
    """
    if any(point.result_id == link.first_bad_result for point in tail.points):
        return None
    excluded = session.scalars(
        select(Exclusion.excluded_at).where(
            Exclusion.result_id == link.first_bad_result, Exclusion.undone_at.is_(None)
        )
    ).first()
    if excluded is None:
        return None
    firsts = [each.first_bad_result for each in standing.changes]
    return frozenset(firsts) - _received_after(session, firsts, excluded)


def _parted(
    session: Session, standing: SeriesAnalysis, tail: RecentPoints, known: Known
) -> tuple[SeriesAnalysis, KnownChange]:
    """The changes, of which the one that a finding is about begins after its newest return."""
    _, row, told = known
    changes = list(standing.changes)
    ends = [*(each.change.index for each in changes), standing.points][1:]
    for number, (change, end) in enumerate(zip(standing.changes, ends, strict=True)):
        back = None
        if told.near(change) and rules.recent(standing, change):
            back = _newest_return(standing, tail, known, end)
        if back is None or not _is_news(session, row, tail, back):
            continue
        if change.change.index < back.stop:
            changes[number] = _placed(tail, change, back.stop)
        told = replace(told, news=told.news | {changes[number].change.index})
    return replace(standing, changes=tuple(changes)), told


def _newest_return(
    standing: SeriesAnalysis, tail: RecentPoints, known: Known, end: int
) -> range | None:
    """Numbers of the points before ``end`` at which a change was over, and later is not."""
    link, _, told = known
    points = tail.points[told.index - tail.first : end - tail.first]
    values = list(map(without_worker_offset(tail, standing.machine_offsets), points))
    patience = 1 if end == standing.points else PATIENCE  # at the end, `rules.stands` says when
    back = rules.newest_return(values, link.before, link.after, patience)
    return None if back is None else range(told.index + back.start, told.index + back.stop)


def _is_news(session: Session, row: FindingRow, tail: RecentPoints, back: range) -> bool:
    """Return True if the old level came back after a finding's opening and went after its closing.

    What lay there before was known to whoever opened or closed it.
    """
    assert row.closed_at is not None
    first, last = back.start - tail.first, back.stop - tail.first
    over = [point.result_id for point in tail.points[first:last]]
    fresh = _received_after(session, over, row.opened_at) == frozenset(over)
    return fresh and bool(_received_after(session, [tail.points[last].result_id], row.closed_at))


def _received_after(session: Session, results: Sequence[str], at: datetime) -> frozenset[str]:
    late = ResultRow.id.in_(results), ResultRow.received_at > at
    return frozenset(session.scalars(select(ResultRow.id).where(*late)))


def _placed(tail: RecentPoints, change: PlacedChange, index: int) -> PlacedChange:
    """A change as one that begins with another point."""
    last_good, first_bad = tail.points[index - tail.first - 1 : index - tail.first + 1]
    return PlacedChange(
        change=replace(change.change, index=index),
        last_good=last_good.revision,
        first_bad=first_bad.revision,
        first_bad_at=first_bad.revision_at,
        first_bad_result=first_bad.result_id,
    )
