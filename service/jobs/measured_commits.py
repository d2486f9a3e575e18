"""Whether a schedule has measured a commit, so that it need not again."""

from __future__ import annotations

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES, Status
from service.jobs.requests import SubmissionRequest
from service.models import Job, ResultRow, Submission

_OF_THE_MACHINE = (Status.INFRA_ERROR, Status.CANCELLED)
"""Results that say nothing of the commit: the next slot may try again."""


def has_measured(session: Session, request: SubmissionRequest) -> bool:
    """Return True if the source of a request has a result of its revision and suite, or awaits one.

    A commit that cannot be built counts: it would fail the same way again.
    """
    told = select(ResultRow.id).where(
        ResultRow.job_id == Job.id,
        ResultRow.counted,
        ResultRow.status.not_in(_OF_THE_MACHINE),
    )
    jobs = (
        select(Job.id)
        .join(Submission, Submission.id == Job.submission_id)
        .where(
            Submission.revision == request.revision,
            Submission.suite == request.suite,
            Submission.source == request.source,
            Submission.project == (request.project or ""),
        )
        .where(or_(Job.state.not_in(FINAL_STATES), told.exists()))
    )
    return session.execute(jobs.limit(1)).first() is not None
