"""Series that show the cause of an open finding later than others join it, without an alert."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from service import models
from service.database.failures import passes
from service.findings import causes, drifts, gather_evidence, lifecycle, opening, rules, witnesses
from service.findings.shift import Shift
from service.history.analysis import Histories
from service.history.series_history import SeriesHistory

log = logging.getLogger(__name__)

GROWING = 5
"""Newest findings that series may join, or leave."""
FARTHER = 1.1
"""Times what is said of a drift, from which on it is said again."""
MOST = 1.5
"""Times the middle size of a drift: what moved by more has another cause besides."""
KNOWN_PART = 0.5
"""Least share of a drift's series without another cause that tells its size."""


def growing(histories: Histories, analysed: Collection[str]) -> dict[str, list[str]]:
    """Give the ids of series, by finding, that show by now what one of the newest is about.

    It reads only, so that it keeps nobody from writing. ``analysed`` are the ids of series that
    have new points.
    """
    session = histories.session
    found: dict[str, list[str]] = {}
    for row in newest(session):
        about = gather_evidence.members(session, row)
        if min(about[0].placed.change.before, about[0].placed.change.after) > 0:
            found[row.id] = list(_show(histories, row, about, analysed))
    return {finding: series for finding, series in found.items() if series}


def newest(session: Session) -> Sequence[models.FindingRow]:
    """Give the newest findings about changes that ask for attention."""
    row = models.FindingRow
    query = select(row).where(row.kind.in_(rules.OF_CHANGES), row.state.in_(rules.ACTIVE))
    return session.scalars(query.order_by(row.first_bad_at.desc()).limit(GROWING)).all()


def _show(
    histories: Histories,
    row: models.FindingRow,
    about: Sequence[rules.Candidate],
    analysed: Collection[str],
) -> Iterator[str]:
    others = _others(histories, about, analysed)
    if not others and not any(one.series.id in analysed for one in about):
        return
    if drifts.moves_on(histories, row, about):
        yield from (one.series.id for one in about if one.series.id in analysed)
        yield from (history.series.id for history in others)
        return
    yield from (
        one.series.id for one, _, _ in witnesses.supporters(histories.session, about[0], others)
    )


def _others(
    histories: Histories, about: Sequence[rules.Candidate], analysed: Collection[str]
) -> list[SeriesHistory]:
    series, known = about[0].series, {member.series.id for member in about}
    same = gather_evidence.same_metric(series)
    own = models.SeriesRow.id
    ids = histories.session.scalars(select(own).where(own.in_(analysed), *same))
    return [histories.of(one) for one in sorted(set(ids) - known)]


def grow(histories: Histories, likely: Mapping[str, Sequence[str]], now: datetime) -> None:
    """Add to findings the series that show their cause by now, without another alert."""
    for finding_id, ids in likely.items():
        try:
            with histories.session.begin_nested():
                _grow(histories, finding_id, ids, now)
        except Exception as error:
            if passes(error):  # the next look does it all again
                raise
            log.exception("no series could be added to finding %s", finding_id)


def _grow(histories: Histories, finding_id: str, ids: Sequence[str], now: datetime) -> None:
    session = histories.session
    row = session.get_one(models.FindingRow, finding_id, populate_existing=True)
    about = gather_evidence.members(session, row)
    if row.state in rules.ACTIVE and drifts.moves_on(histories, row, about):
        lifecycle.mark_drift(session, row)
        _go_on(histories, row, about, ids, now)
        return
    known = {member.series.id for member in about}
    others = [histories.of(series_id) for series_id in ids if series_id not in known]
    found = witnesses.witnesses(session, about[0], others, now) if row.state in rules.ACTIVE else []
    if more := opening.unreported(session, found):
        opening.join(histories, row, more, now)


def _go_on(
    histories: Histories,
    row: models.FindingRow,
    about: Sequence[rules.Candidate],
    ids: Sequence[str],
    now: datetime,
) -> None:
    """Say of a drift how far it has come, and add the series that it has moved by now."""
    session = histories.session
    known = {member.series.id for member in about}
    among = [histories.of(series_id) for series_id in sorted({*known, *ids})]
    moved = list(drifts.moved_by_now(session, row, about, among))
    metric = about[0].series.metric
    sizes = [
        shift.log for one, shift in moved if one.series.id in known and one.series.metric == metric
    ]
    if len(sizes) < KNOWN_PART * sum(one.series.metric == metric for one in about):
        return
    size = median(sizes)
    alone = [(one, shift) for one, shift in moved if abs(shift.log) <= MOST * abs(size)]
    farther = [_farther(session, row, one, shift) for one, shift in alone if one.series.id in known]
    more = [
        witnesses.witness(session, one, shift, math.exp(-surely), now)
        for one, shift in alone
        if one.series.id not in known
        and (surely := causes.support(size, shift.log, shift.error)) >= causes.SUPPORT
    ]
    if more := opening.unreported(session, more):
        opening.join(histories, row, more, now)
    elif any(farther):
        gather_evidence.say_again(histories, row, gather_evidence.members(session, row))


def _farther(
    session: Session, row: models.FindingRow, history: SeriesHistory, shift: Shift
) -> bool:
    """Note how far a drift has come in a series; True if that is farther than what is said."""
    link = session.get_one(models.FindingSeries, (row.id, history.series.id))
    same_way = shift.effect * link.effect > 0
    if link.ended or not same_way or abs(shift.effect) < FARTHER * abs(link.effect):
        return False
    for name in ("effect", "effect_low", "effect_high", "before", "after"):
        setattr(link, name, getattr(shift, name))
    session.flush()
    return True
