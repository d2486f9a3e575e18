"""Puts jobs into the queue and hands them out."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, bindparam, insert, select
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, Claim, JobSpec, JobState, Lease
from service import models
from service.database.prepared import Prepared, Runner, session_on
from service.database.session import insert_if_absent, new_id
from service.history import record
from service.jobs import candidates, eligibility, groups
from service.jobs.candidates import NextJob
from service.jobs.transitions import LIVE, change, change_attempt, require
from service.jobs.types import Holder, Terms
from service.schemas import errors

_REQUIREMENTS = cast(Table, models.LabelSet.__table__)
_JOBS, _ATTEMPTS = cast(Table, models.Job.__table__), cast(Table, models.Attempt.__table__)
_SAME = Prepared(
    select(
        _ATTEMPTS.c.worker,
        _ATTEMPTS.c.job_id,
        _ATTEMPTS.c.number,
        _ATTEMPTS.c.secret,
        _JOBS.c.spec,
        _JOBS.c.group_id,
    )
    .join_from(_ATTEMPTS, _JOBS, _JOBS.c.id == _ATTEMPTS.c.job_id)
    .where(_ATTEMPTS.c.claim_id == bindparam("claim_id"))
)


def submit(
    session: Session, specs: Sequence[JobSpec], submission_id: str, now: datetime, first: int = 0
) -> list[str]:
    """Queue the jobs of these cases, one for each replicate, and give their ids, in order.

    ``first`` is the first case's place in its submission, when it has others already.
    """
    project = session.get_one(models.Submission, submission_id).project
    required, new = _requirements(session, specs)
    first_jobs: dict[int, str] = {}
    jobs: list[dict[str, Any]] = []
    for number, (position, spec) in enumerate(groups.rounds(specs), start=first):
        job_id = new_id(now, number)
        jobs.append(
            {
                "id": job_id,
                "group_id": first_jobs.setdefault(position, job_id),
                "submission_id": submission_id,
                "project": project,
                "position": first + position,
                "replicate": spec.replicate,
                "case_key": spec.case.key,
                "spec": spec.model_dump(mode="json"),
                "revision": spec.revision,
                "requires": required[position],
                "rank": -spec.priority,
                "state": JobState.QUEUED,
                "attempt": 0,
                "lost_attempts": 0,
                "cancel_requested": False,
                "reason": "",
                "rerun_of": spec.rerun_of,
                "created_at": now,
                "queued_at": now,
            }
        )
    if jobs:
        session.execute(insert(_JOBS), jobs)
    heads = eligibility.heads((job["requires"], job["rank"], job["id"]) for job in jobs)
    for digest, labels in new.items():
        eligibility.add_set(session, digest, labels, heads.pop(digest))
    eligibility.wake(session, heads)
    return [job["id"] for job in jobs]


def lease(on: Runner, claim: Claim, terms: Terms, now: datetime) -> Lease | None:
    """Hand the claiming worker a job; None if there is none for it.

    The same claim gets the same lease, so an answer that was lost on the way can be asked for
    again. Higher priority goes first, then age; a job that this worker lost goes to another. There
    is none for a worker whose GPU another attempt still holds.

    Raises:
        NotFound: the worker has not introduced itself.
        Conflict: another worker used this claim id.
    """
    taken = candidates.device_is_taken(on, claim.worker)  # locks before anything is changed
    if not change(on, models.WorkerRow, {"name": claim.worker}, last_seen_at=now):
        raise errors.NotFound("This worker is not known; introduce it: PUT /api/v1/workers/{name}")
    same = _same_lease(on, claim, terms, now)
    if same is not None:
        return same
    job = None if taken else candidates.choose(on, claim.worker, terms.lease, now)
    if job is None:
        return None
    # None: the same claim was answered by another replica meanwhile.
    return _grant(on, job, claim, terms, now) or _same_lease(on, claim, terms, now)


def _grant(on: Runner, job: NextJob, claim: Claim, terms: Terms, now: datetime) -> Lease | None:
    number, secret = job.attempt + 1, secrets.token_hex(32)
    attempt = {
        "job_id": job.id,
        "number": number,
        "worker": claim.worker,
        "claim_id": claim.claim_id,
        "secret": secret,
        "state": AttemptState.GRANTED,
        "granted_at": now,
        "lease_expires_at": now + terms.lease,
        "reason": "",
    }
    # Before its job, whose event in the log takes its holder and time from it.
    if not insert_if_absent(on, _ATTEMPTS, attempt, key="claim_id"):
        return None
    still = {"id": job.id, "state": JobState.QUEUED, "attempt": job.attempt}
    require(change(on, models.Job, still, state=JobState.LEASED, attempt=number))
    if job.kept_for != claim.worker and job.spec["protocol"]["replicates"] > 1:
        with session_on(on) as session:
            groups.keep(session, job.id, job.group_id, claim.worker)
    return _lease_of(job.id, number, secret, job.spec, job.group_id, terms)


def _same_lease(on: Runner, claim: Claim, terms: Terms, now: datetime) -> Lease | None:
    rows = _SAME.run(on, claim_id=claim.claim_id)
    if not rows:
        return None
    ((worker, job_id, number, secret, spec, group_id),) = rows
    if worker != claim.worker:
        raise errors.Conflict("Another worker used this claim id; draw a fresh one.")
    # The worker counts the lease from its latest request, so ours must not end before.
    change_attempt(on, Holder(job_id, number, secret), *LIVE, lease_expires_at=now + terms.lease)
    return _lease_of(job_id, number, secret, spec, group_id, terms)


def _lease_of(
    job_id: str, number: int, secret: str, spec: dict[str, Any], group_id: str, terms: Terms
) -> Lease:
    return Lease(
        job_id=job_id,
        attempt=number,
        secret=secret,
        spec=JobSpec.model_validate(spec),
        lease_s=terms.lease.total_seconds(),
        heartbeat_s=terms.heartbeat.total_seconds(),
        group=group_id,
    )


def _requirements(
    session: Session, specs: Sequence[JobSpec]
) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The digest of each spec's requirement set; and the sets that nobody had asked for before."""
    digests = [record.facts_digest(spec.needs) for spec in specs]
    asked = {digest: spec.needs for digest, spec in zip(digests, specs, strict=True)}
    new = {
        digest: labels
        for digest, labels in asked.items()
        if insert_if_absent(session, _REQUIREMENTS, {"digest": digest, "labels": labels})
    }
    return digests, new
