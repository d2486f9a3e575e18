"""Changes that take earlier ones back: they close what they end, and are no news of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.analysis.recovery import RECOVERED, fits, taken_back, without
from service.findings import update
from service.findings.rules import Candidate
from service.models import FindingRow, FindingSeries, SeriesRow
from service.schemas.findings import REFUTED

Standing = Sequence[tuple[FindingSeries, FindingRow]]
"""Reported changes of a series, the other way, that still stand: oldest first."""


def take_back(session: Session, group: Sequence[Candidate], now: datetime) -> Sequence[Candidate]:
    """Close what changes of one cause take back, and give those of them that are news.

    Where most of them end an earlier change, the rest do so too: there it was too small to be seen.
    """
    standing = [_standing(session, change) for change in group]
    reverted = _reverted(session, group, standing)
    news = [
        change
        for change, known in zip(group, standing, strict=True)
        if not _ends(session, change, known, reverted, now)
    ]
    return news if 2 * len(news) >= len(group) else []


def _standing(session: Session, change: Candidate) -> Standing:
    placed = change.placed
    return [
        (link, row)
        for link, row in update.links_of(session, change.series.id)
        if link.first_bad_at < placed.first_bad_at
        and (placed.change.effect > 0) != (link.effect > 0)
        and not (link.ended or update.is_expected(row))
    ]


def _real(known: Standing) -> Standing:
    return [(link, row) for link, row in known if row.state not in REFUTED]


def _reverted(
    session: Session, group: Sequence[Candidate], standing: Sequence[Standing]
) -> frozenset[str] | None:
    """Give the findings, of several that stand in these series, that the changes take back.

    Of two regressions of nearly one size, the level tells badly which one was reverted. So of the
    ways that fit, the one is meant whose findings are about these series and few others. None where
    nothing fits or no series has several.
    """
    shares: dict[frozenset[str], list[float]] = defaultdict(list)
    for change, known in zip(group, map(_real, standing), strict=True):
        if len(known) < 2:
            continue
        steps = [(link.before, link.after) for link, _ in known]
        for way, share in fits(steps, change.placed.change.after).items():
            shares[frozenset(known[at][1].id for at in way)].append(share)
    close = {way: misfit for way, of in shares.items() if (misfit := median(of)) <= RECOVERED}
    series = {change.series.id for change in group}
    metric = group[0].series.metric
    return max(
        close,
        key=lambda way: (min(_share_of(session, one, metric, series) for one in way), -close[way]),
        default=None,
    )


def _share_of(session: Session, finding_id: str, metric: str, series: set[str]) -> float:
    """Give the share that ``series`` are of those that a finding is about, in one metric."""
    about = (
        select(FindingSeries.series_id)
        .join(SeriesRow, SeriesRow.id == FindingSeries.series_id)
        .where(FindingSeries.finding_id == finding_id, FindingSeries.ended == "")
        .where(SeriesRow.metric == metric)
    )
    ids = session.scalars(about).all()
    return sum(one in series for one in ids) / max(1, len(ids))


def _ends(
    session: Session,
    change: Candidate,
    known: Standing,
    reverted: frozenset[str] | None,
    now: datetime,
) -> bool:
    """Close what one change takes back; True if it is no news beside that."""
    placed, ended = change.placed, False
    chosen = reverted is not None and any(row.id in reverted for _, row in known)
    for at, (link, row) in enumerate(known):
        level = placed.change.after
        if chosen and reverted is not None:
            if row.id not in reverted:
                continue
            others = [one for one, its in _real(known[at + 1 :]) if its.id not in reverted]
            level = without([(one.before, one.after) for one in others], level)
        elif not taken_back(link.before, link.after, level):
            continue
        update.recover(link, placed.first_bad_at)
        session.flush()
        update.settle(session, row, placed.first_bad, now)
        ended = ended or update.is_no_news(link, row, level)
    return ended
