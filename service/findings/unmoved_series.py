"""Tells the series that did not move with the cause of a change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from service.analysis.detection.change import ChangePoint
from service.findings import causes, rules
from service.findings.queries import reported_places
from service.findings.shift import Shift, shift_by_now, step_at
from service.history import revisions
from service.history.series_history import EDGE, Place, SeriesHistory
from service.history.slow_workers import SlowPeriods


def on_both_sides(
    session: Session,
    first: rules.Candidate,
    since: Place,
    around: Sequence[SeriesHistory],
    ill: SlowPeriods,
) -> Iterator[tuple[SeriesHistory, bool]]:
    """Yield the series that were measured on both sides of a place; True if one did not move.

    The others moved with it or by another cause, or do not tell.
    """
    change, reported = first.placed.change, reported_places(session, around)
    project = first.series.project
    begin, last = (
        revisions.beside(session, since[0], project, by) for by in (-rules.NEAR, rules.DRIFT)
    )
    for history in around:
        places, recent = reported[history.series.id], history.recent
        index = recent.index_at(since)
        if index is None or not recent.first < index < recent.first + len(recent.points):
            continue
        if any(abs(one.change.index - index) <= EDGE for one in history.analysis.changes):
            yield history, False
            continue
        if first.drifts:
            until = min([last, *_starts_after(history, since, places)])
            shift = shift_by_now(history, (begin, since[0], until), places, ill)
        else:
            shift = step_at(history, since[0], places, ill)
        yield history, shift is not None and _stayed(change, shift)


def _starts_after(
    history: SeriesHistory, since: Place, reported: Iterable[rules.ReportedPlace]
) -> Iterator[datetime]:
    """Yield the places of the last points before what is reported after a place."""
    recent = history.recent
    begin = recent.index_at(since) or recent.first
    later = (one.at - recent.first for one in reported if one.at > begin)
    yield from (recent.points[at - 1].revision_at for at in later if at <= len(recent.points))


def _stayed(change: ChangePoint, shift: Shift) -> bool:
    if min(change.before, change.after) <= 0:
        return True
    return causes.stayed(math.log(change.after / change.before), shift.log, shift.error)
