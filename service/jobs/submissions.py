"""Submissions as they are shown."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES, JobState, leading
from service import models
from service.database import paging
from service.database.session import found
from service.jobs.submit import AcceptedSubmission
from service.jobs.views import jobs_of
from service.schemas.jobs import SubmissionSummary, SubmissionView, Submitted


def load_submission(session: Session, submission_id: str) -> SubmissionView:
    """One submission with its jobs.

    Raises:
        NotFound: there is no such submission.
    """
    row = found(session, models.Submission, submission_id)
    summary = _summaries(session, [row])[0]
    return SubmissionView(**summary.model_dump(), jobs=jobs_of(session, submission_id))


def answer_of(session: Session, accepted: AcceptedSubmission) -> Submitted:
    """Return the answer to the request that was ``accepted``."""
    made = load_submission(session, accepted.submission_id)
    return Submitted(**dict(made), left_out=accepted.left_out)


def is_finished(session: Session, submission_id: str) -> bool:
    """Return True if every job of a submission has come to an end, or if there is none."""
    open_jobs = select(models.Job.id).where(
        models.Job.submission_id == submission_id, models.Job.state.not_in(FINAL_STATES)
    )
    return session.execute(open_jobs.limit(1)).first() is None


def list_submissions(
    session: Session, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> paging.Page[SubmissionSummary]:
    """Submissions that meet ``conditions``, the newest first."""
    page = paging.newest_first(
        session, models.Submission, models.Submission.id, conditions, after, limit
    )
    return page.shown(_summaries(session, page.items))


def _summaries(session: Session, rows: Sequence[models.Submission]) -> list[SubmissionSummary]:
    counts: dict[str, dict[str, int]] = {row.id: {} for row in rows}
    unfinished = set()
    states: dict[tuple[str, str], list[JobState]] = {}
    jobs = select(models.Job.submission_id, models.Job.group_id, models.Job.state).where(
        models.Job.submission_id.in_(counts)
    )
    for submission_id, group_id, state in session.execute(jobs.distinct()):
        states.setdefault((submission_id, group_id), []).append(JobState(state))
    for (submission_id, _), of_case in states.items():
        state = leading(of_case)
        counts[submission_id][state] = counts[submission_id].get(state, 0) + 1
        if not FINAL_STATES.issuperset(of_case):
            unfinished.add(submission_id)
    return [
        SubmissionSummary.of(row, finished=row.id not in unfinished, counts=counts[row.id])
        for row in rows
    ]
