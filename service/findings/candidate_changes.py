"""Changes of a series that its history alone makes believable, and that no finding covers."""

from __future__ import annotations

import math

from sqlalchemy.orm import Session

from service.analysis.detection.alarms import PATIENCE
from service.analysis.detection.windows import SAME
from service.findings import causes, rules
from service.findings.gather_evidence import where_of
from service.findings.shift import shift_at
from service.findings.thresholds import NEVER
from service.findings.witnesses import support_at_place
from service.history import slow_workers
from service.history.series_history import EDGE, PlacedChange, SeriesHistory


def candidates(
    session: Session,
    history: SeriesHistory,
    covered: rules.AlreadyReported,
    ill: slow_workers.SlowPeriods,
    least: float,
) -> list[rules.Candidate]:
    """Changes of a series that no finding covers and that the history alone makes believable."""
    analysis = history.analysis
    if not history.series.is_watched or least == NEVER:
        return []
    ends = {change.id: rules.recovery(history, change, ill) for change in analysis.changes}
    over = {
        back.id
        for change in analysis.changes
        if (back := ends[change.id]) is not None
        and change.id not in covered.expected
        and rules.recent(analysis, change)
        and rules.only_ends(analysis, change, back)
    }
    return [
        rules.Candidate(
            series=history.series,
            placed=placed,
            **where_of(
                session,
                placed,
                history.series.project,
                rules.misplaced_by(placed.change.effect, analysis.noise),
            ),
            doubt=1.0 - placed.change.confidence,
            back=ends[placed.id],
            least=least,
        )
        for placed in analysis.changes
        if placed.id not in covered.changes | over
        and not covered.has_begin(placed.change)
        and rules.recent(analysis, placed)
        and rules.stands(analysis, placed)
        and not rules.leaving(history, placed)
        and not made_by_slow_workers(history, placed, ill)
    ]


MISPLACED = 30
"""Points from a slow period on within which it may move a change to a wrong place."""


def made_by_slow_workers(
    history: SeriesHistory, placed: PlacedChange, ill: slow_workers.SlowPeriods
) -> bool:
    """Return True if a change is only in what workers measured while they were slow.

    Such points near it may also move it to a wrong place. Measuring again leaves them out, so the
    history alone is not believed for some more points, nor if well workers show no such change
    there.
    """
    recent, change = history.recent, placed.change
    slow = [at for at, p in enumerate(recent.points, recent.first) if slow_workers.by_ill(p, ill)]
    if not slow:
        return False
    apart = min(abs(at - change.index) for at in slow)
    if apart <= EDGE and history.analysis.points - change.index < PATIENCE + SAME:
        return True
    shift = shift_at(history, placed.first_bad_at, (), ill)
    if shift is None or min(change.before, change.after) <= 0:
        return shift is None
    size = math.log(change.after / change.before)
    if apart <= MISPLACED:
        return support_at_place(size, shift) < 0
    return causes.support(size, shift.log, shift.error) < 0
