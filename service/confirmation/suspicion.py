"""Which points of a history are suspicious: a low bar, for all that follows is measuring again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from service.detection.history import Refused
from service.detection.judgement import resume
from service.detection.watch import expectation
from service.findings import SeriesName, rules
from service.levels import PlacedChange, Standing, Tail

NEWEST = 3
"""Points at the end that may be suspicious by themselves; older ones had their chance."""
LEVEL_POINTS = 30
"""Points before a change that say what was expected."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A point that is not where its history led one to expect it, or the first of several."""

    series: SeriesName
    last_good: str
    first_bad: str
    first_bad_at: datetime
    first_bad_result: str
    index: int
    worker: str
    before: float
    after: float

    @property
    def effect(self) -> float:
        """As a share of the level before, signed as measured."""
        return self.after / self.before - 1.0


def suspicions(
    series: SeriesName, standing: Standing, tail: Tail, since: datetime, covered: frozenset[int]
) -> list[Suspicion]:
    """What should be measured again of a series that has points from ``since`` on.

    ``covered`` are the changes, by index, that findings are about: they are no news.
    """
    if not rules.watched(series.metric):
        return []
    places = {
        each.change.index
        for each in standing.changes
        if each.change.index not in covered and rules.recent(standing, each)
    }
    places |= set(_surprises(tail, since, standing.changes))
    told = (_suspicion(series, tail, index) for index in sorted(places))
    return [each for each in told if each is not None and not _near(each.index, covered)]


def _near(index: int, covered: frozenset[int]) -> bool:
    """A finding's own change makes the points around it surprising."""
    return any(abs(index - known) <= rules.NEAR for known in covered)


def _surprises(tail: Tail, since: datetime, changes: tuple[PlacedChange, ...]) -> Iterator[int]:
    """The newest points that are outside what those before them led one to expect."""
    fresh = [at for at, point in enumerate(tail.points) if point.revision_at >= since]
    known = {each.change.index for each in changes}
    for at in fresh:
        if at < len(tail.points) - NEWEST or at == 0 or tail.first + at in known:
            continue
        if _surprised(tail, at):
            yield tail.first + at


def _surprised(tail: Tail, at: int) -> bool:
    point = tail.points[at]
    try:
        before = tail.history.first(at)
    except Refused:
        return False
    judged = resume((), before, 0)
    names = before.group_names
    group = names.index(point.worker) if point.worker in names else None
    expected = expectation(before, judged, group)
    return expected is not None and expected.surprised_by(point.value)


def _suspicion(series: SeriesName, tail: Tail, index: int) -> Suspicion | None:
    at = index - tail.first
    if at < 1:
        return None
    first_bad, last_good = tail.points[at], tail.points[at - 1]
    before = median(point.value for point in tail.points[max(0, at - LEVEL_POINTS) : at])
    after = median(point.value for point in tail.points[at : at + LEVEL_POINTS])
    if min(before, after) <= 0 or before == after or first_bad.revision == last_good.revision:
        return None
    return Suspicion(
        series=series,
        last_good=last_good.revision,
        first_bad=first_bad.revision,
        first_bad_at=first_bad.revision_at,
        first_bad_result=first_bad.result_id,
        index=index,
        worker=first_bad.worker,
        before=before,
        after=after,
    )
