"""Finds what a bisection is to explain: the case that was named, or a finding's first series."""

from __future__ import annotations

import math

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog.metrics import METRICS
from service import models
from service.comparisons.bisection.subject import ChangeToExplain, Subject
from service.database.session import found
from service.schemas import bisections as schemas
from service.schemas import errors
from service.schemas.findings import FindingKind

_EXPLAINED = (FindingKind.REGRESSION, FindingKind.IMPROVEMENT)


def of_request(session: Session, request: schemas.BisectionRequest) -> Subject:
    """The subject of a request that has all its commits."""
    return _of_finding(session, request) if request.finding else _of_case(request)


def _of_case(request: schemas.BisectionRequest) -> Subject:
    assert request.case is not None
    if request.metric not in METRICS:
        raise errors.UnknownChoice(f"There is no metric {request.metric}: see GET /api/v1/catalog.")
    return Subject(case=request.case, metric=request.metric, protocol=request.protocol)


def bisectable(session: Session, finding_id: str | None) -> models.FindingRow:
    """The finding that is asked about, if it can be bisected."""
    finding = found(session, models.FindingRow, finding_id)
    about = models.FindingSeries.finding_id == finding.id
    query = select(models.SeriesRow.source).join(models.FindingSeries).where(about)
    if source := session.scalars(query.limit(1)).first():
        raise errors.Invalid(
            f"The finding is about what was imported from {source}: no worker here can measure it."
        )
    if finding.kind not in _EXPLAINED or finding.last_good is None:
        raise errors.Invalid(
            "Only a regression or an improvement with a last good revision can be bisected."
        )
    return finding


def _of_finding(session: Session, request: schemas.BisectionRequest) -> Subject:
    """Take the case of the finding's first series, measured as its first bad result was."""
    finding = bisectable(session, request.finding)
    ends = request.commits[0].revision, request.commits[-1].revision
    if ends != (finding.last_good, finding.first_bad):
        raise errors.Invalid(
            f"The finding lies between {finding.last_good} and {finding.first_bad}: name the "
            "commits from the first of these to the second."
        )
    link = models.FindingSeries
    query = (
        select(link, models.SeriesRow, models.Job.spec)
        .join(models.SeriesRow, models.SeriesRow.id == link.series_id)
        .join(models.ResultRow, models.ResultRow.id == link.first_bad_result)
        .join(models.Job, models.Job.id == models.ResultRow.job_id)
        .where(link.finding_id == finding.id)
        .order_by(link.place)
    )
    first = session.execute(query.limit(1)).first()
    if first is None or min(first[0].before, first[0].after) <= 0:
        raise errors.Invalid("The finding is about no series whose level can be compared.")
    affected, series, spec = first
    if math.isclose(affected.before, affected.after):
        raise errors.Invalid("The finding's level before and after is the same by now.")
    return Subject(
        case=contracts.Case.model_validate(series.case),
        metric=series.metric,
        change=ChangeToExplain(before=affected.before, after=affected.after),
        protocol=request.protocol or contracts.Protocol.model_validate(spec["protocol"]),
    )
