"""Cases to be measured."""

from __future__ import annotations

from fastapi import Response

from benchmarks.contracts import JobState, Revision
from service.api.dependencies import (
    Caller,
    Cursor,
    DatabaseSession,
    Id,
    IdempotencyKey,
    Limit,
    Now,
    owned,
)
from service.api.openapi import problems
from service.api.router import noun
from service.auth import audit
from service.auth.permissions import Permission, needs
from service.jobs import expiry, requests, views
from service.jobs import submit as jobs_submit
from service.jobs.requests import JobRequest
from service.models import Job
from service.schemas.jobs import JobView, Listing

router = noun("/jobs", "jobs")


@router.post("", status_code=201, responses={200: {"description": "Submitted before."}})
@needs(Permission.SUBMIT)
def submit(
    spec: JobRequest,
    response: Response,
    session: DatabaseSession,
    now: Now,
    caller: Caller,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Queue one case and answer with its first job: each replicate of it is a job."""
    request = requests.request_of(owned(spec, caller))
    accepted = jobs_submit.submit(session, request, now, idempotency_key)
    if accepted.replayed:
        response.status_code = 200
    queued = views.jobs_of(session, accepted.submission_id)[0]
    audit.made(session, queued.id, before=accepted.replayed)
    return queued


@router.get("")
@needs(Permission.READ)
def list_jobs(
    session: DatabaseSession,
    state: JobState | None = None,
    revision: Revision | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listing[JobView]:
    """List jobs, the newest first."""
    conditions = []
    if state is not None:
        conditions.append(Job.state == state)
    if revision is not None:
        conditions.append(Job.revision == revision)
    return Listing.of(views.list_jobs(session, *conditions, after=cursor, limit=limit))


@router.get("/{job_id}", responses=problems(404))
@needs(Permission.READ)
def read_job(job_id: Id, session: DatabaseSession) -> JobView:
    """Read a job with its attempts."""
    return views.load_job(session, job_id)


@router.post("/{job_id}/cancel", responses=problems(404))
@needs(Permission.SUBMIT)
def cancel(job_id: Id, session: DatabaseSession, now: Now) -> JobView:
    """Cancel a job: at once while it is queued, else through its worker's next heartbeat.

    The other replicates of its case are cancelled with it. A job that has ended stays as it is.
    """
    expiry.cancel(session, job_id, now)
    return views.load_job(session, job_id)
