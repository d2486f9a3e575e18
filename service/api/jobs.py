"""Cases to be measured."""

from __future__ import annotations

from fastapi import Response

from benchmarks import contracts
from service.api import dependencies
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.database.paging import matching
from service.jobs import expiry, requests, views
from service.jobs import submit as jobs_submit
from service.models import Job
from service.schemas import jobs as schemas

router = Noun("/jobs", "jobs")


@router.post("", status_code=201, responses={200: {"description": "Submitted before."}})
@Permission.SUBMIT.required
def submit(
    spec: requests.JobRequest,
    response: Response,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    caller: dependencies.Caller,
    idempotency_key: dependencies.IdempotencyKey = None,
) -> schemas.JobView:
    """Queue one case and answer with its first job: each replicate of it is a job."""
    request = requests.request_of(dependencies.owned(spec, caller))
    accepted = jobs_submit.submit(session, request, now, idempotency_key)
    if accepted.replayed:
        response.status_code = 200
    queued = views.jobs_of(session, accepted.submission_id)[0]
    audit.made(session, queued.id, before=accepted.replayed)
    return queued


@router.get("")
@Permission.READ.required
def list_jobs(
    session: dependencies.DatabaseSession,
    state: contracts.JobState | None = None,
    revision: contracts.Revision | None = None,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 50,
) -> schemas.Listing[schemas.JobView]:
    """List jobs, the newest first."""
    conditions = matching({Job.state: state, Job.revision: revision})
    return schemas.Listing.of(views.list_jobs(session, *conditions, after=cursor, limit=limit))


@router.get("/{job_id}", responses=router.problems(404))
@Permission.READ.required
def read_job(job_id: dependencies.Id, session: dependencies.DatabaseSession) -> schemas.JobView:
    """Read a job with its attempts."""
    return views.load_job(session, job_id)


@router.post("/{job_id}/cancel", responses=router.problems(404))
@Permission.SUBMIT.required
def cancel(
    job_id: dependencies.Id, session: dependencies.DatabaseSession, now: dependencies.Now
) -> schemas.JobView:
    """Cancel a job: at once while it is queued, else through its worker's next heartbeat.

    The other replicates of its case are cancelled with it. A job that has ended stays as it is.
    """
    expiry.cancel(session, job_id, now)
    return views.load_job(session, job_id)
