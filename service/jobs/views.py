"""Jobs as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from benchmarks.contracts import JobSpec, Progress
from service.database import paging
from service.database.paging import Page
from service.database.session import found, pairs
from service.models import Attempt, Job, ResultRow
from service.schemas.jobs import AttemptView, JobView


def load_job(session: Session, job_id: str) -> JobView:
    """One job with its attempts.

    Raises:
        NotFound: there is no such job.
    """
    return views(session, [found(session, Job, job_id, populate_existing=True)])[0]


def list_jobs(
    session: Session, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> Page[JobView]:
    """Jobs that meet ``conditions``, the newest first."""
    page = paging.newest_first(session, Job, Job.id, conditions, after, limit)
    return page.shown(views(session, page.items))


def jobs_of(session: Session, submission_id: str) -> list[JobView]:
    """The jobs of a submission, in the order of its cases."""
    query = (
        select(Job).where(Job.submission_id == submission_id).order_by(Job.position, Job.replicate)
    )
    return views(session, session.scalars(query).all())


def views(session: Session, rows: Sequence[Job]) -> list[JobView]:
    """Show jobs with their attempts and the ids of their counted results."""
    ids = [row.id for row in rows]
    attempts: dict[str, list[AttemptView]] = {job_id: [] for job_id in ids}
    query = select(Attempt).where(Attempt.job_id.in_(ids)).order_by(Attempt.number)
    for attempt in session.scalars(query.execution_options(populate_existing=True)):
        attempts[attempt.job_id].append(
            AttemptView.of(attempt, progress=_progress(attempt.progress))
        )
    counted = select(ResultRow.job_id, ResultRow.id).where(
        ResultRow.job_id.in_(ids), ResultRow.counted
    )
    result_ids = pairs(session, counted)
    return [_job(row, attempts[row.id], result_ids.get(row.id)) for row in rows]


def _progress(stored: object) -> Progress | None:
    try:
        return Progress.model_validate(stored) if stored else None
    except ValidationError:  # written by another version: the rest is shown
        return None


def _job(row: Job, attempts: list[AttemptView], result_id: str | None) -> JobView:
    spec = JobSpec.model_validate(row.spec)
    return JobView.of(
        row,
        replicates=spec.protocol.replicates,
        case=spec.case,
        suite=spec.suite,
        purpose=spec.purpose,
        requires=spec.requires,
        priority=spec.priority,
        timeout_s=spec.timeout_s,
        result_id=result_id,
        attempts=attempts,
    )
