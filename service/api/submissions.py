"""Suites and cases that are measured together."""

from __future__ import annotations

from functools import partial
from typing import Literal

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse

from benchmarks.contracts import Name, Revision
from service import models
from service.api import dependencies
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.database.paging import matching
from service.history import revisions
from service.http.long_poll import pauses
from service.jobs import report, submissions
from service.jobs import submit as jobs_submit
from service.jobs.requests import SubmissionRequest
from service.models.project_filter import within
from service.schemas.jobs import Listing, SubmissionSummary, SubmissionView, Submitted
from service.schemas.reports import Report
from service.wording import markdown

router = Noun("/submissions", "submissions")


@router.post("", status_code=201, responses={200: {"description": "Submitted before."}})
@Permission.SUBMIT.required
def submit(
    request: SubmissionRequest,
    response: Response,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    caller: dependencies.Caller,
    idempotency_key: dependencies.IdempotencyKey = None,
) -> Submitted:
    """Queue a suite, a case or several cases at one revision.

    With an `Idempotency-Key` the same request may be sent again and again: it is queued once, and
    answered with 200 and the same submission. The key with another request is refused.
    `left_out` says how many cases of the suite its device refuses.

    `revision_at` is the commit's time and orders the history; without it a revision stands where it
    was first seen. `only` picks workloads of the suite. `requires` chooses workers by label, such
    as `{"device": "cuda"}`.

    `tier` replaces the suite's timing: `quick` (one process, and no point in a series unless
    `purpose` is `history`), `standard` (three processes) or `gate` (five, in longer windows).
    `replicates` (1 to 50) changes only how many fresh processes measure each case. Each is a job;
    a case makes points once the last one is in, and `counts` are of cases. `trace` keeps
    the profiler's trace of each case.
    """
    accepted = jobs_submit.submit(
        session, dependencies.owned(request, caller), now, idempotency_key
    )
    if accepted.replayed:
        response.status_code = 200
    audit.made(session, accepted.submission_id, before=accepted.replayed)
    return submissions.answer_of(session, accepted)


@router.get("")
@Permission.READ.required
def list_submissions(
    session: dependencies.DatabaseSession,
    revision: Revision | None = None,
    suite: Name | None = None,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 50,
) -> Listing[SubmissionSummary]:
    """List submissions, the newest first."""
    conditions = matching({models.Submission.revision: revision, models.Submission.suite: suite})
    page = submissions.list_submissions(session, *conditions, after=cursor, limit=limit)
    return Listing.of(page)


@router.get("/{submission_id}", responses=router.problems(404))
@Permission.READ.required
async def read_submission(
    submission_id: dependencies.Id, request: Request, wait_s: dependencies.Wait = 0.0
) -> SubmissionView:
    """Read a submission with its jobs, after waiting until it is finished or `wait_s` is over."""
    database = dependencies.get_database(request)
    load = within(
        request.state.project, partial(submissions.load_submission, submission_id=submission_id)
    )
    is_over = within(
        request.state.project, partial(submissions.is_finished, submission_id=submission_id)
    )
    submission = await database.run(load, write=False)
    if submission.finished or wait_s == 0:
        return submission
    async for _ in pauses(request, wait_s):
        if await database.run(is_over, write=False):
            break
    return await database.run(load, write=False)


@router.get(
    "/{submission_id}/report",
    response_model=Report,
    responses={200: {"content": {"text/markdown": {}}}, **router.problems(404)},
)
@Permission.READ.required
def read_report(
    submission_id: dependencies.Id,
    session: dependencies.DatabaseSession,
    against: Revision | None = None,
    format: Literal["json", "markdown"] = "json",  # noqa: A002 - the name in the address
) -> Report | Response:
    """Read the results table of a submission, compared with another revision if one is named.

    `advice` has what may be tried at the fastest case of each workload. Of a factorial suite,
    `effects` says what each factor does. A case of a disturbed device names its flags, has no
    speed-up and is compared with nothing.
    """
    other = None if against is None else revisions.find(session, against)
    answer = report.load(session, submission_id, other)
    if format == "markdown":
        return PlainTextResponse(markdown.report(answer), media_type="text/markdown")
    return answer
