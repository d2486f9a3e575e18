"""The routes that workers call: claim, start, renew the lease, post the result, give back.

Every worker calls these again and again, so each does all that it asks of the database in one go
to a thread, its commit with it; where a session is a dependency, each step is a way there and back.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Depends, Header, Path, Request, Response
from pydantic import BaseModel
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from benchmarks import trace_file
from benchmarks.artifact_kinds import GZIP, LIMIT_B, ArtifactKind
from benchmarks.contracts import Claim, Contract, Heartbeat, Lease, Line, Renewal, Result, Secret
from service import comparisons
from service.api.dependencies import Caller, Id, LeaseTerms
from service.api.router import Noun
from service.auth.permissions import Permission
from service.database.session import Database, now_of
from service.history import attachments
from service.history.types import KeptArtifact
from service.http.long_poll import pauses
from service.http.problems import answer
from service.http.strict_route import Plain, WorkerRoute, takes
from service.jobs import attempts, candidates, leases
from service.jobs.types import Completion, Holder, Terms
from service.schemas.errors import Fenced, Invalid

router = Noun("", "leases", WorkerRoute)


async def get_holder(
    job_id: Id,
    number: Annotated[int, Path(ge=1, le=2**31 - 1), Plain],
    secret: Annotated[Secret, Header(alias="Lease-Secret")],
    request: Request,
) -> Holder:
    """Return the credentials with which the request writes to an attempt."""
    return Holder(job_id, number, secret, request.state.principal.worker)


AttemptHolder = Annotated[Holder, Depends(get_holder)]

_ATTEMPT = "/jobs/{job_id}/attempts/{number}"
_FENCED = router.problems(409)


class Release(Contract):
    """A worker's reason for giving a job back."""

    reason: Line = ""


class PostedArtifact(BaseModel):
    """A trace or log that is stored."""

    result_id: str
    """The result that it belongs to."""
    size_b: int


class Posted(BaseModel):
    """A result that is stored and counts."""

    id: str
    counted: bool


_PACKED = {"type": "string", "format": "binary", "minLength": 1, "maxLength": LIMIT_B}
_POSTED_FILE: Any = {
    "status_code": 201,
    "response_model": PostedArtifact,
    "responses": {
        200: {"description": "Posted before.", "model": PostedArtifact},
        **router.problems(404, 409),
    },
    "openapi_extra": {"requestBody": {"required": True, "content": {GZIP: {"schema": _PACKED}}}},
}


@router.post(
    "/leases",
    response_model=Lease,
    responses={204: {"description": "No work."}, **router.problems(404, 409)},
)
@Permission.WORK.required
async def claim_job(claim: Claim, request: Request, terms: LeaseTerms, caller: Caller) -> Response:
    """Ask for a job that needs no label which the worker lacks; waits up to `wait_s` for one.

    The same `claim_id` always gets the same lease back, so a claim may be sent again. A lease is a
    duration: count it on a monotonic clock from the moment that the request was sent. Every write
    to its attempt carries the header `Lease-Secret`; once the lease is over, 409 (`fenced`).
    """
    caller.be(claim.worker)
    database = _database(request)
    lease = await database.write(partial(_lease, claim, terms))
    if lease is None:
        look = partial(candidates.has_work, worker=claim.worker)
        async for _ in pauses(request, claim.wait_s):
            if await database.run(look, write=False):
                lease = await database.write(partial(_lease, claim, terms))
            if lease is not None:
                break
    return _written(lease) if lease else Response(status_code=204)


@router.post(f"{_ATTEMPT}/start", status_code=204, responses=_FENCED)
@Permission.WORK.required
async def start(holder: AttemptHolder, request: Request, terms: LeaseTerms) -> Response:
    """Say that the measurement begins; repeating it changes nothing."""

    def work(session: Session) -> None:
        attempts.start(session, holder, terms, now_of(session))

    await _database(request).run(work, write=True)
    return Response(status_code=204)


@router.post(f"{_ATTEMPT}/heartbeat", response_model=Renewal, responses=_FENCED)
@Permission.WORK.required
async def heartbeat(beat: Heartbeat, holder: AttemptHolder, request: Request) -> Response:
    """Renew the lease and report progress and the end of the log.

    The answer says whether the job was cancelled.
    """

    terms: Terms = request.app.state.terms

    def work(connection: Connection) -> Renewal:
        return attempts.heartbeat(connection, holder, beat, terms, now_of(connection))

    return _written(await _database(request).write(work))


@router.post(
    f"{_ATTEMPT}/result",
    status_code=201,
    response_model=Posted,
    responses={
        200: {"description": "Posted before.", "model": Posted},
        **router.problems(404, 409),
    },
)
@Permission.WORK.required
async def post_result(result: Result, holder: AttemptHolder, request: Request) -> Response:
    """Deliver a result: 201 the first time, 200 for the same result again.

    409 for an attempt that is over (the result is kept and shown, and never counted) and for
    another result of an attempt that has one.
    """

    def work(connection: Connection) -> Completion:
        now = now_of(connection)
        completion = attempts.complete(connection, holder, result, now)
        if completion.counted and completion.comparison_id:
            comparisons.move_on_after(connection, completion.comparison_id, now)
        return completion

    completion = await _database(request).write(work)
    if not completion.counted:
        # Answered and not raised: an error would undo the keeping of the late result.
        return answer(Fenced("The attempt was over; the result is kept and does not count."))
    status = 201 if completion.created else 200
    return _written(Posted(id=completion.result_id, counted=True), status)


@router.post(f"{_ATTEMPT}/trace", **_POSTED_FILE)
@Permission.WORK.required
@takes(GZIP, LIMIT_B)
async def post_trace(holder: AttemptHolder, request: Request) -> Response:
    """Deliver the profiler's trace of a result that was taken: JSON packed with gzip.

    201 the first time, 200 for the same trace again; 409 for an attempt from which no result was
    taken, for one that nobody asked for a trace, and for another trace of one that has one.
    """
    body = await request.body()
    if flaw := trace_file.flaw(body):
        raise Invalid(flaw)
    return await _keep(ArtifactKind.TRACE, body, holder, request)


@router.post(f"{_ATTEMPT}/log", **_POSTED_FILE)
@Permission.WORK.required
@takes(GZIP, LIMIT_B)
async def post_log(holder: AttemptHolder, request: Request) -> Response:
    """Deliver the whole log of a result that was taken, packed with gzip.

    201 the first time, 200 for the same log again; 409 for an attempt from which no result was
    taken, and for another log of one that has one.
    """
    body = await request.body()
    if not body.startswith(b"\x1f\x8b"):
        raise Invalid("The log is not packed with gzip.")
    return await _keep(ArtifactKind.LOG, body, holder, request)


async def _keep(kind: ArtifactKind, body: bytes, holder: Holder, request: Request) -> Response:
    digest, artifacts = hashlib.sha256(body).hexdigest(), request.app.state.artifacts

    def check(session: Session) -> None:
        attempts.taken_from(session, holder, kind)

    def work(session: Session) -> KeptArtifact:
        result_id = attempts.taken_from(session, holder, kind)
        return attachments.keep(session, result_id, kind, digest, len(body), now_of(session))

    # The body before its row, and only of whoever may have one kept; the look locks its rows.
    await _database(request).run(check, write=True)
    await anyio.to_thread.run_sync(artifacts.put, digest, body)
    kept = await _database(request).run(work, write=True)
    posted = PostedArtifact(result_id=kept.result_id, size_b=kept.size_b)
    return _written(posted, 201 if kept.created else 200)


@router.post(f"{_ATTEMPT}/release", status_code=204, responses=_FENCED)
@Permission.WORK.required
async def release(body: Release, holder: AttemptHolder, request: Request) -> Response:
    """Give a job back unharmed: it is queued again, and nothing counts as lost."""

    def work(session: Session) -> None:
        attempts.release(session, holder, body.reason, now_of(session))

    await _database(request).run(work, write=True)
    return Response(status_code=204)


def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


def _written(answer: BaseModel, status: int = 200) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")


def _lease(claim: Claim, terms: Terms, connection: Connection) -> Lease | None:
    return leases.lease(connection, claim, terms, now_of(connection))
