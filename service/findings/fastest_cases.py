"""Findings about cases that overtook the fastest of their workload on one kind of hardware."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from service import models
from service.analysis.statement import Statement
from service.findings import lifecycle
from service.history import ranking
from service.history.best import METRIC, best_cases
from service.history.queries import name_of
from service.schemas import findings as schemas
from service.schemas.best import BestCase, Overtaken
from service.wording import formats, overtaken


def ranked(session: Session, analysed: Collection[str], now: datetime) -> list[BestCase]:
    """Rank the workloads that these series are of, as far as they are of throughput; reads only."""
    query = select(models.SeriesRow.case).where(
        models.SeriesRow.id.in_(analysed), models.SeriesRow.metric == METRIC
    )
    query = query.where(models.SeriesRow.source == "")
    workloads = {case["workload"] for case in session.scalars(query)}
    found = best_cases(session, now) if workloads else []
    return [best for best in found if best.workload in workloads]


def watch(session: Session, rankings: Sequence[BestCase], now: datetime) -> list[str]:
    """Open a finding for each case that overtook another, and close those that are over; their ids.

    A case and the one that it overtook are news once in `BEFORE`, whatever became of the finding.
    """
    known = _known(session, now)
    for row in known:
        if row.closed_at is None:
            _close_if_over(session, row, rankings, now)
    reported = {tuple(row.measured["series"]) for row in known}
    return [
        _open(session, best, best.overtaken, now)
        for best in rankings
        if best.overtaken is not None
        and (best.best.series_id, best.overtaken.before.series_id) not in reported
    ]


def _known(session: Session, now: datetime) -> Sequence[models.FindingRow]:
    """Find what is open, or was opened lately."""
    news = or_(
        models.FindingRow.closed_at.is_(None), models.FindingRow.opened_at >= now - ranking.BEFORE
    )
    of_kind = models.FindingRow.kind == schemas.FindingKind.OVERTAKEN
    return session.scalars(
        select(models.FindingRow).where(of_kind, news).order_by(models.FindingRow.id)
    ).all()


def _close_if_over(
    session: Session, row: models.FindingRow, rankings: Sequence[BestCase], now: datetime
) -> None:
    """Close a finding once another case is surely faster, or once it is no news any more."""
    series = name_of(session.get_one(models.SeriesRow, row.measured["series"][0]))
    best = next((best for best in rankings if ranking.is_ranked_in(series, best)), None)
    leading = [best.best, *best.as_good] if best else []
    if best and series.id not in [case.series_id for case in leading]:
        said = "another case is the fastest now"
    elif now - row.opened_at > ranking.BEFORE:
        said = f"no news after {ranking.BEFORE.days} days"
    else:
        return
    lifecycle.act(session, row.id, "resolve", lifecycle.SYSTEM_ACTOR, now, detail=said)


def _open(session: Session, best: BestCase, told: Overtaken, now: datetime) -> str:
    return lifecycle.open_finding(
        session,
        now,
        _statement(best, told),
        kind=schemas.FindingKind.OVERTAKEN,
        cause=schemas.Cause.UNKNOWN,
        certainty=schemas.Certainty.STANDING,
        attribution=None,
        measured={"series": [best.best.series_id, told.before.series_id]},
        share=told.faster.value - 1,
        last_good=None,
        first_bad=told.since_revision,
        first_bad_at=session.get_one(models.Revision, told.since_revision).ordered_at,
        comparability=best.comparability,
        worker=None,
        project=best.project,
    )


def _statement(best: BestCase, told: Overtaken) -> Statement:
    return Statement.of(
        "overtaken",
        workload=best.workload,
        device=formats.hardware(best.comparability),
        ahead=overtaken.beside(told.before.case, best.best.case),
        other=overtaken.beside(best.best.case, told.before.case),
        since=told.since_revision,
        faster=told.faster.value,
        low=told.faster.low,
        high=told.faster.high,
        gained=told.gained,
        lost=told.lost,
        days=ranking.BEFORE.days,
    )
