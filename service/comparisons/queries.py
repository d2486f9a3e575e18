"""Comparisons as the API and the pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from service import models
from service.analysis import gate
from service.comparisons import case_workers, comparison_jobs, forecasts, worker_choice
from service.database import paging
from service.database.session import found
from service.schemas import comparisons as schemas
from service.wording.statements import decision_of


def load_comparison(session: Session, comparison_id: str, now: datetime) -> schemas.ComparisonView:
    """One comparison with its decision, or with what its pairs say so far.

    Raises:
        NotFound: there is no such comparison.
    """
    row = found(session, models.ComparisonRow, comparison_id, populate_existing=True)
    request = row.parsed_request
    made = comparison_jobs.of(session, comparison_id)
    stored = row.decision
    if stored is None:
        records = comparison_jobs.records(row, made)
        used = comparison_jobs.used(records, made, request.policy.max_pairs)
        so_far = gate.decide(records, request.policy, (row.baseline, row.contender), last=False)
        stored = so_far.model_copy(update={"used": used}).model_dump(mode="json")
    shown = decision_of(stored)
    return schemas.ComparisonView.of(
        row,
        **dict(_summary(row)),
        request=request,
        workers=tuple(case_workers.names(row, made)),
        jobs=len({one.job_id for one in made}),
        jobs_ended=len({one.job_id for one in made if one.measured is not None}),
        note=_note(session, row, made, now),
        decision=None if row.decision is None else shown,
        so_far=shown,
        forecast=forecasts.of(session, row, request, made),
        page=f"/comparisons/{row.id}",
    )


def list_comparisons(
    session: Session, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> paging.Page[schemas.ComparisonSummary]:
    """Comparisons that meet ``conditions``, the newest first."""
    page = paging.newest_first(
        session, models.ComparisonRow, models.ComparisonRow.id, conditions, after, limit
    )
    return page.shown(map(_summary, page.items))


def _summary(row: models.ComparisonRow) -> schemas.ComparisonSummary:
    outcome = None if row.decision is None else row.decision["outcome"]
    return schemas.ComparisonSummary.of(row, outcome=outcome, suite=row.request.get("suite"))


def _note(
    session: Session, row: models.ComparisonRow, made: Sequence[models.ComparisonJob], now: datetime
) -> str:
    if row.reason or row.state != models.ComparisonState.RUNNING:
        return row.reason
    lost = (worker_choice.lost(session, name, now) for name in case_workers.waited_for(row, made))
    return " ".join(f"{why} This waits for it." for why in lost if why)
