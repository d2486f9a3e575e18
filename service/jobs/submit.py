"""Queues what a request means, once, however often it is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import Table, func, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Contract, JobSpec
from service import models
from service.database.session import insert_if_absent, new_id
from service.history import revisions
from service.jobs import leases, workers
from service.jobs.expand import expand, left_out
from service.jobs.requests import SubmissionRequest
from service.schemas import errors

_KEYS = cast(Table, models.IdempotencyKey.__table__)


@dataclass(frozen=True, slots=True)
class AcceptedSubmission:
    """The submission that a request made, or had made before."""

    submission_id: str
    replayed: bool
    left_out: int
    """Cases of the suite that was asked for which were not queued."""


class _Taken(Exception):
    """Another request with the same key was faster."""


def submit(
    session: Session,
    request: SubmissionRequest,
    now: datetime,
    key: str | None = None,
    without: Collection[str] = (),
) -> AcceptedSubmission:
    """Queue what ``request`` asks for; with ``key``, only the first time.

    Cases whose keys are in ``without`` are not queued.

    Raises:
        Invalid: that leaves none.
        UnknownChoice: a name that the catalog does not have.
        Impossible: a combination that cannot run.
        Invalid: a time or a job that cannot be.
        KeyReused: ``key`` came with another request before.
    """
    likely = workers.common_device(session, request.requires, now) if request.suite else None
    specs = expand(request, likely)
    missing = left_out(request, len(specs))
    specs = tuple(spec for spec in specs if spec.case.key not in without)
    if without and not specs:
        raise errors.Invalid("All cases that are left of its suite are measured already.")
    if key is None:
        made = _store(session, request, specs, now)
        return AcceptedSubmission(made, replayed=False, left_out=missing)
    key = kept_as(key, request.project)
    before = _answered(session, key, request)
    if before is not None:
        return before
    try:
        with session.begin_nested():
            made = _store(session, request, specs, now)
            digest = digest_of(request)
            row = {"key": key, "digest": digest, "submission_id": made, "created_at": now}
            if not insert_if_absent(session, _KEYS, row):
                raise _Taken
    except _Taken:
        before = _answered(session, key, request)
        assert before is not None
        return before
    return AcceptedSubmission(made, replayed=False, left_out=missing)


def digest_of(request: Contract) -> str:
    """Names a request by what it says; the order of the names in it says nothing."""
    said = request.model_dump(mode="json", exclude_unset=True)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _store(
    session: Session, request: SubmissionRequest, specs: Sequence[JobSpec], now: datetime
) -> str:
    revisions.register(session, request.revision, request.revision_at, now)
    revisions.describe(session, request.revision, request.revision_author, request.revision_title)
    row = models.Submission(
        id=new_id(now),
        project=_project(session, request),
        suite=request.suite,
        revision=request.revision,
        source=request.source,
        created_at=now,
    )
    session.add(row)
    session.flush()
    leases.submit(session, specs, row.id, now)
    return row.id


def _project(session: Session, request: SubmissionRequest) -> str:
    """Return the submission's project, empty if none; a rerun stays in the project of its job."""
    if request.rerun_of is None:
        return request.project or ""
    job = session.get(models.Job, request.rerun_of)
    if job is None:
        raise errors.Invalid("rerun_of names no job; GET /api/v1/jobs lists them.")
    if request.project not in (None, job.project):
        whose = f"the project {job.project}" if job.project else "no project"
        raise errors.Invalid(f"rerun_of names a job of {whose}: leave `project` out.")
    return job.project


def kept_as(key: str, project: str | None) -> str:
    """Return the text under which an Idempotency-Key is kept: each project has its own.

    No key has a blank in it, so that nobody can send another project's.
    """
    return f"{project} {hashlib.sha256(key.encode()).hexdigest()}" if project else key


def _answered(session: Session, key: str, request: SubmissionRequest) -> AcceptedSubmission | None:
    row = session.get(models.IdempotencyKey, key)
    if row is None:
        return None
    if row.digest != digest_of(request):
        raise errors.KeyReused(errors.REUSED)
    jobs = select(func.count(models.Job.position.distinct())).where(
        models.Job.submission_id == row.submission_id
    )
    missing = left_out(request, session.scalar(jobs) or 0)
    return AcceptedSubmission(row.submission_id, replayed=True, left_out=missing)
