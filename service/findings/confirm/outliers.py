"""Finds the suspicious points of a history: a low bar, for all that follows is measuring again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from statistics import median

from benchmarks.catalog.metrics import metric
from service.analysis.detection.history import Refused
from service.analysis.detection.prediction import expectation
from service.analysis.detection.windows import detect
from service.findings import AlreadyReported, rules
from service.findings.confirm.suspicion import Baseline, Suspicion
from service.history.series_history import EDGE, RecentPoint, RecentPoints, SeriesHistory
from service.schemas.series import SeriesName

NEWEST = 3
"""Points at the end that may be suspicious by themselves; older ones had their chance."""
LEVEL_POINTS = 30
"""Points before a change that say what was expected."""


def suspicions(
    history: SeriesHistory,
    since: datetime,
    covered: AlreadyReported,
    ill: frozenset[str] = frozenset(),
) -> list[Suspicion]:
    """Find the suspicious points of a series, which should be measured again.

    A point before ``since`` is suspicious only where a change was detected. ``covered`` is what
    findings say of the series already, and ``ill`` are the workers that findings name as slow:
    neither is news.
    """
    series, analysis, tail = history.series, history.analysis, history.recent
    if not metric(series.metric).is_watched:
        return []
    known = {change.change.index for change in analysis.changes} | {s.index for s in covered.shifts}
    shifts = {shift.index for shift in covered.shifts}
    places: dict[int, str | None] = {
        change.change.index: change.id
        for change in analysis.changes
        if rules.recent(analysis, change)
        and change.id not in covered.changes
        and not _near(change.change.index, shifts)
    }
    surprises = _surprises(tail, since, covered)
    places |= {index: None for index in surprises if not _near(index, known)}
    sound = {index for index in known if not rules.beside_ill(tail, index, ill)}
    rows = (
        _suspicion(series, tail, index, change_id, sound, ill)
        for index, change_id in sorted(places.items())
    )
    return [row for row in rows if row is not None]


def _near(index: int, places: Iterable[int]) -> bool:
    return any(abs(index - known) <= EDGE for known in places)


def _surprises(tail: RecentPoints, since: datetime, covered: AlreadyReported) -> Iterator[int]:
    newest = max(1, len(tail.points) - NEWEST)
    for at, point in enumerate(tail.points[newest:], newest):
        if point.revision_at >= since and _surprised(tail, at, covered):
            yield tail.first + at


def _surprised(tail: RecentPoints, at: int, covered: AlreadyReported) -> bool:
    """Return True if a point is surprising, both as it is and with confirmed changes undone."""
    point = tail.points[at]
    try:
        before = tail.history.first(at)
    except Refused:
        return False
    names = before.group_names
    group = names.index(point.worker) if point.worker in names else None
    expected = expectation(before, detect(before), group)
    undone = point.value
    for shift in covered.shifts:
        if shift.index <= tail.first + at:
            undone *= shift.before / shift.after
    return expected is not None and all(
        expected.surprised_by(value) for value in (point.value, undone)
    )


def points_before(tail: RecentPoints, index: int, known: Iterable[int]) -> Sequence[RecentPoint]:
    """The points of the level that ends before a place, between which no change is ``known``."""
    at = index - tail.first
    begin = max((place for place in known if place < index), default=tail.first) - tail.first
    return tail.points[max(0, begin, at - LEVEL_POINTS) : max(0, at)]


def _suspicion(
    series: SeriesName,
    tail: RecentPoints,
    index: int,
    change_id: str | None,
    known: Iterable[int],
    ill: frozenset[str],
) -> Suspicion | None:
    """Give the suspicion at a place, if there is one, without the workers known to be slow."""
    at = index - tail.first
    end = min((place for place in known if place > index), default=tail.first + len(tail.points))
    earlier = [p for p in points_before(tail, index, known) if p.worker not in ill]
    later = [p for p in tail.points[max(0, at) : end - tail.first] if p.worker not in ill]
    if not earlier or not later or later[0].revision == earlier[-1].revision:
        return None
    usual = Baseline.of((point.worker, point.value) for point in earlier)
    before = usual.level
    after = median(usual.alike(point.worker, point.value) for point in later)
    for _ in range(EDGE):  # a point just before may have changed as well and been no surprise
        value = usual.alike(earlier[-1].worker, earlier[-1].value)
        if len(earlier) == 1 or abs(value - before) <= abs(value - after):
            break
        later.insert(0, earlier.pop())
    while later[0].revision == earlier[-1].revision:  # only whole revisions can be compared
        earlier.append(later.pop(0))
    if min(before, after) <= 0 or not rules.worth_telling(after / before - 1.0):
        return None
    return Suspicion(
        series=series,
        last_good=earlier[-1].revision,
        first_bad=later[0].revision,
        first_bad_at=later[0].revision_at,
        first_bad_result=later[0].result_id,
        change_id=change_id,
        worker=later[0].worker,
        usual=usual,
        after=after,
    )
