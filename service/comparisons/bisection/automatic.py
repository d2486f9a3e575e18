"""Begins the bisections of confirmed findings by itself, within what a day allows."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy import Select, and_, exists, func, or_, select
from sqlalchemy.orm import Session

from service import models
from service.comparisons.bisection.ordered import start
from service.comparisons.bisection.queries import may_begin
from service.comparisons.bisection.subject import BisectionDecision
from service.database.session import alone
from service.jobs import commit_ranges
from service.schemas.bisections import BisectionRequest
from service.schemas.errors import ServiceError
from service.schemas.findings import Cause, Certainty, FindingKind

log = logging.getLogger(__name__)

SOURCE = "automatic"
DAY = timedelta(days=1)
MOST, LEAST = 80, 20
"""Processes of one bisection; with fewer than the least none is sure, so none is begun."""
PRIORITY = -1
"""After the history's jobs: nobody waits for the answer."""
LOOKED_AT = 20
"""Findings, the newest ones: most that nobody bisects have no commits between their ends."""


def begin_unasked(session: Session, daily: int, now: datetime) -> str | None:
    """Begin one bisection, if ``daily`` processes a day allow it; return its id.

    The newest regression that was measured again and is put down to the code, or to the packages
    that its revisions name, comes first, and the largest of one revision. A finding that was
    bisected once, by whomever, is not bisected again.
    """
    alone(session, "automatic bisections")
    left = daily - _spent_since(session, now - DAY)
    if left < LEAST:
        return None
    if not (candidates := session.scalars(_candidates()).all()):
        return None
    here = [one for one in commit_ranges.workers_here(session, now) if one.drained_at is None]
    for finding in candidates:
        if not may_begin(session, finding.last_good, finding.first_bad, now, here):
            continue
        request = BisectionRequest(
            finding=finding.id, most_processes=min(left, MOST), priority=PRIORITY, source=SOURCE
        )
        try:
            with session.begin_nested():
                begun = start(session, request, now)
        except ServiceError as error:
            log.info("finding %s is not bisected: %s", finding.id, error.detail)
        else:
            log.info("finding %s is bisected: %s", finding.id, begun)
            return begun
    return None


def _candidates() -> Select[models.FindingRow]:
    own = models.FindingRow
    size = (
        select(func.max(func.abs(models.FindingSeries.effect)))
        .where(models.FindingSeries.finding_id == own.id)
        .scalar_subquery()
    )
    return (
        select(own)
        .where(
            own.kind == FindingKind.REGRESSION,
            or_(
                own.cause == Cause.CODE,
                and_(own.cause == Cause.ENVIRONMENT, own.first_bad.contains("==")),
            ),
            own.certainty == Certainty.CONFIRMED,
            own.closed_at.is_(None),
            own.last_good.is_not(None),
            ~exists().where(models.BisectionRow.finding_id == own.id),
        )
        .order_by(own.first_bad_at.desc(), size.desc(), own.id)
        .limit(LOOKED_AT)
    )


def _spent_since(session: Session, since: datetime) -> int:
    """Count the processes of the automatic bisections begun since then; of those that run all that
    they may take."""
    begun = select(models.BisectionRow).where(models.BisectionRow.created_at > since)
    return sum(_processes(row) for row in session.scalars(begun) if row.request["source"] == SOURCE)


def _processes(row: models.BisectionRow) -> int:
    if row.state == models.BisectionState.RUNNING:
        return BisectionRequest.model_validate(row.request).most_processes
    if row.decision is not None:
        return BisectionDecision.model_validate(row.decision).processes
    return 2 * row.probed
