"""Reads the fastest case of each workload: the newest points, failed parity, and noise.

What a worker measured while it was slow tells of that worker, and counts for no case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from benchmarks.contracts import Status
from service.history import failing, ranking
from service.history.queries import latest_of_each_series
from service.history.run_noise import spreads_of
from service.history.slow_workers import of_well_workers, slow_periods
from service.schemas.best import BestCase
from service.schemas.series import Series

METRIC = failing.METRIC


def best_cases(session: Session, now: datetime, workload: str | None = None) -> list[BestCase]:
    """The best case of each workload, or of one, on each kind of hardware."""
    return [one.best for one in rankings(session, now, workload)]


def rankings(session: Session, now: datetime, workload: str | None = None) -> list[ranking.Ranking]:
    """All cases of each workload, or of one, on each kind of hardware, the fastest first."""
    series = latest_of_each_series(session, METRIC, ranking.REVISIONS)
    return _ranked(session, [one for one in series if workload in (None, one.case.workload)], now)


def best_among(session: Session, series: Sequence[Series], now: datetime) -> list[BestCase]:
    """The best cases of histories that were read; a few queries for every 500 of them.

    ``series`` are of throughput, as `latest_of_each_series` reads `ranking.REVISIONS` of them.
    """
    return [one.best for one in _ranked(session, series, now)]


def _ranked(session: Session, series: Sequence[Series], now: datetime) -> list[ranking.Ranking]:
    since, ill = now - ranking.LATELY - ranking.BEFORE, slow_periods(session)
    well = [replace(one, points=tuple(of_well_workers(one.points, ill))) for one in series]
    recent = [
        one for one in well if not one.source and one.points and one.points[-1].measured_at >= since
    ]
    if not recent:
        return []
    known = ranking.KnownOfCases(
        _parity_failures(session, since), spreads_of(session, [one.id for one in recent])
    )
    return ranking.rank(recent, known, now)


def _parity_failures(session: Session, since: datetime) -> ranking.Failures:
    """Find where cases failed parity from a time on; what somebody took out is no failure."""
    failures: dict[ranking.CaseId, list[failing.Place]] = {}
    for failure in failing.failures_since(session, since):
        if failure.status is Status.PARITY_FAIL:
            failures.setdefault(failure.case, []).append(failure.place)
    return failures
