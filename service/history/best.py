"""Reads the fastest case of each workload: the newest points, failed parity, and noise."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Environment, JobState, Purpose
from service.history import ranking
from service.history.queries import latest_of_each_series
from service.history.run_noise import spreads_of
from service.models import EnvironmentRow, Exclusion, Job, ResultRow, Revision
from service.models.results import FAILED_PARITY
from service.schemas.best import BestCase
from service.schemas.series import Series

METRIC = "throughput"


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
    since = now - ranking.LATELY - ranking.BEFORE
    recent = [
        one
        for one in series
        if not one.source and one.points and one.points[-1].measured_at >= since
    ]
    if not recent:
        return []
    known = ranking.KnownOfCases(
        _parity_failures(session, since), spreads_of(session, [one.id for one in recent])
    )
    return ranking.rank(recent, known, now)


def _parity_failures(session: Session, since: datetime) -> ranking.Failures:
    """Find where cases failed parity from a time on; what somebody took out is no failure."""
    taken_out = select(Exclusion.id).where(
        Exclusion.result_id == ResultRow.id, Exclusion.undone_at.is_(None)
    )
    row = ResultRow
    failed = (
        select(
            *(row.case_key, row.project, row.environment, Revision.ordered_at, row.measured_at),
            Job.spec,
        )
        .join(Job, Job.id == row.job_id)
        .join(Revision, Revision.name == row.revision)
        .where(Job.state == JobState.FAILED, row.counted, FAILED_PARITY)
        .where(row.measured_at >= since, ~taken_out.exists())
    )
    rows = [
        found
        for *found, spec in session.execute(failed)
        if spec.get("purpose", Purpose.HISTORY) == Purpose.HISTORY
    ]
    hardware = _hardware(session, {environment for _, _, environment, *_ in rows})
    failures: dict[ranking.CaseId, list[tuple[datetime, datetime]]] = {}
    for case_key, project, environment, revision_at, measured_at in rows:
        name = ranking.case_id(case_key, project, hardware[environment])
        failures.setdefault(name, []).append((revision_at, measured_at))
    return failures


def _hardware(session: Session, digests: set[str]) -> dict[str, dict[str, str]]:
    """Read the comparability of environments, by digest."""
    if not digests:
        return {}
    query = select(EnvironmentRow.digest, EnvironmentRow.facts)
    rows = session.execute(query.where(EnvironmentRow.digest.in_(sorted(digests))))
    return {digest: Environment(facts=facts).comparability() for digest, facts in rows}
