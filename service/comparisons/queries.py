"""Comparisons as the API and the pages show them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from service.analysis import gate
from service.comparisons import comparison_jobs, worker_choice
from service.comparisons.advance import NONE_KNOWN
from service.database import paging
from service.database.paging import Page
from service.errors import NotFound
from service.models import ComparisonRow, ComparisonState
from service.schemas.comparisons import ComparisonRequest, ComparisonSummary, ComparisonView
from service.schemas.gate import DecisionView, Outcome
from service.wording.statements import worded


def load_comparison(session: Session, comparison_id: str, now: datetime) -> ComparisonView:
    """One comparison with its decision, or with what its pairs say so far.

    Raises:
        NotFound: there is no such comparison.
    """
    row = session.get(ComparisonRow, comparison_id, populate_existing=True)
    if row is None:
        raise NotFound(NONE_KNOWN)
    request = ComparisonRequest.model_validate(row.request)
    made = comparison_jobs.of(session, comparison_id)
    stored = row.decision
    if stored is None:
        records = comparison_jobs.records(row, made)
        used = comparison_jobs.used(records, made, request.policy.max_pairs)
        so_far = gate.decide(records, request.policy, (row.baseline, row.contender), last=False)
        stored = so_far.model_copy(update={"used": used}).model_dump(mode="json")
    shown = DecisionView.model_validate(worded(stored))
    return ComparisonView(
        **_summary(row).model_dump(),
        request=request,
        worker=row.worker,
        rounds=row.rounds,
        jobs=len(made),
        jobs_ended=sum(one.measured is not None for one in made),
        note=_note(session, row, now),
        decision=None if row.decision is None else shown,
        so_far=shown,
        page=f"/comparisons/{row.id}",
    )


def list_comparisons(
    session: Session, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> Page[ComparisonSummary]:
    """Comparisons that meet ``conditions``, the newest first."""
    page = paging.newest_first(session, ComparisonRow, ComparisonRow.id, conditions, after, limit)
    return page.shown(map(_summary, page.items))


def _summary(row: ComparisonRow) -> ComparisonSummary:
    return ComparisonSummary(
        id=row.id,
        state=ComparisonState(row.state),
        outcome=None if row.decision is None else Outcome(row.decision["outcome"]),
        baseline=row.baseline,
        contender=row.contender,
        suite=row.request.get("suite"),
        project=row.project,
        source=row.source,
        created_at=row.created_at,
        ends_at=row.ends_at,
        decided_at=row.decided_at,
    )


def _note(session: Session, row: ComparisonRow, now: datetime) -> str:
    if row.reason or row.state != ComparisonState.RUNNING:
        return row.reason
    lost = "" if row.worker is None else worker_choice.lost(session, row.worker, now)
    return f"{lost} This waits for it." if lost else ""
