"""Series that show the cause of an open finding later than others join it, without an alert."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import select

from service.database.failures import passes
from service.findings.gather_evidence import members
from service.findings.opening import join, unreported
from service.findings.rules import ACTIVE, Candidate
from service.findings.witnesses import supporters, witnesses
from service.history.analysis import Histories
from service.history.series_history import SeriesHistory
from service.models import FindingRow, SeriesRow
from service.schemas.findings import FindingKind

log = logging.getLogger(__name__)

GROWING = 5
"""Newest findings that are looked at for more series of the same cause."""


def growing(histories: Histories, analysed: Collection[str]) -> dict[str, list[str]]:
    """Give the ids of series, by finding, that show by now what one of the newest is about.

    It reads only, so that it keeps nobody from writing. ``analysed`` are the ids of series that
    have new points.
    """
    session = histories.session
    newest = select(FindingRow).where(
        FindingRow.kind != FindingKind.BAD_NODE, FindingRow.state.in_(ACTIVE)
    )
    found: dict[str, list[str]] = {}
    for row in session.scalars(newest.order_by(FindingRow.first_bad_at.desc()).limit(GROWING)):
        about = members(session, row)
        if min(about[0].placed.change.before, about[0].placed.change.after) > 0:
            others = _others(histories, about, analysed)
            shown = supporters(session, about[0], others)
            found[row.id] = [history.series.id for history, _, _ in shown]
    return {finding: series for finding, series in found.items() if series}


def _others(
    histories: Histories, about: Sequence[Candidate], analysed: Collection[str]
) -> list[SeriesHistory]:
    series, known = about[0].series, {member.series.id for member in about}
    same = (SeriesRow.project == series.project, SeriesRow.metric == series.metric)
    ids = histories.session.scalars(select(SeriesRow.id).where(SeriesRow.id.in_(analysed), *same))
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
    row = session.get_one(FindingRow, finding_id, populate_existing=True)
    about = members(session, row)
    known = {member.series.id for member in about}
    others = [histories.of(series_id) for series_id in ids if series_id not in known]
    found = witnesses(session, about[0], others, now) if row.state in ACTIVE else []
    if more := unreported(session, found):
        join(histories, row, more, now)
