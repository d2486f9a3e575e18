"""Takes out of findings the series that only a slow worker moved.

A finding may be opened in the night in which a worker became slow, before anybody knows that, and
takes in whatever moved with it. What the others measure shows later which series moved at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from service.findings import causes, gather_evidence, lifecycle
from service.findings.bad_nodes import ill_nodes
from service.findings.growth import newest
from service.findings.rules import Candidate
from service.findings.shift import shift_at
from service.history import slow_workers
from service.history.analysis import Histories
from service.history.series_history import SeriesHistory
from service.models import FindingRow, FindingSeries


def take_out(histories: Histories, now: datetime) -> None:
    """Take out of the newest findings what workers that are slow now moved alone.

    The series that a finding was opened for stays.
    """
    session = histories.session
    if not ill_nodes(session):
        return
    ill = slow_workers.slow_periods(session)
    for row in newest(session):
        about = gather_evidence.members(session, row)
        slow = [one for one in about[1:] if _made_by_slow(histories.of(one.series.id), one, ill)]
        if slow:
            _leave(histories, row, slow, now)


def _made_by_slow(history: SeriesHistory, member: Candidate, ill: slow_workers.SlowPeriods) -> bool:
    """Return True if a slow worker measured a change, and what the others measured has none."""
    recent, at = history.recent, member.placed.first_bad_at
    index = recent.index_of(at)
    if index is None:
        return False
    points = recent.points[index - recent.first :]
    well = slow_workers.of_well_workers(points, ill)
    if len(well) == len(points):
        return False
    if not well:
        return True
    shift = shift_at(history, at, (), ill)
    change = member.placed.change
    if shift is None or min(change.before, change.after) <= 0:
        return False
    return causes.support(math.log(change.after / change.before), shift.log, shift.error) < 0


def _leave(histories: Histories, row: FindingRow, slow: Sequence[Candidate], now: datetime) -> None:
    session = histories.session
    for one in slow:
        session.delete(session.get_one(FindingSeries, (row.id, one.series.id)))
    session.flush()
    names = ", ".join(f"{one.series.case.key} {one.series.metric}" for one in slow)
    lifecycle.record(session, row.id, "leave", now, detail=names)
    gather_evidence.say_again(histories, row, gather_evidence.members(session, row))
