"""Puts jobs into the queue and hands them out."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, bindparam, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, Claim, JobSpec, JobState, Lease
from service.database.ids import new_id
from service.database.session import insert_if_absent
from service.errors import Conflict, NotFound
from service.history import record
from service.jobs import candidates, eligibility, groups
from service.jobs.transitions import LIVE, change, change_attempt, require
from service.jobs.types import Holder, Terms
from service.models import Attempt, Job, LabelSet, Submission, WorkerRow

_REQUIREMENTS = cast(Table, LabelSet.__table__)
_JOBS = cast(Table, Job.__table__)
# Made once: every claim asks.
_SAME = select(Attempt).where(Attempt.claim_id == bindparam("claim_id"))


def submit(
    session: Session,
    specs: Sequence[JobSpec],
    submission_id: str,
    now: datetime,
    first: int = 0,
) -> list[str]:
    """Queue the jobs of these cases, one for each replicate, and give their ids, in order.

    ``first`` is the first case's place in its submission, when it has others already.
    """
    project = session.get_one(Submission, submission_id).project
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


def lease(session: Session, claim: Claim, terms: Terms, now: datetime) -> Lease | None:
    """Hand the claiming worker a job; None if there is none for it.

    The same claim gets the same lease, so an answer that was lost on the way can be asked for
    again. Higher priority goes first, then age; a job that this worker lost goes to another. There
    is none for a worker whose GPU another attempt still holds.

    Raises:
        NotFound: the worker has not introduced itself.
        Conflict: another worker used this claim id.
    """
    taken = candidates.device_is_taken(session, claim.worker)  # locks before anything is changed
    seen = change(session, WorkerRow, {"name": claim.worker}, last_seen_at=now)
    if not seen:
        raise NotFound("This worker is not known; introduce it: PUT /api/v1/workers/{name}")
    same = _same_lease(session, claim, terms, now)
    if same is not None:
        return same
    job = None if taken else candidates.choose(session, claim.worker, terms.lease, now)
    if job is None:
        return None
    try:
        with session.begin_nested():
            return _grant(session, job, claim, terms, now)
    except IntegrityError:
        # The same claim was answered by another replica meanwhile; nothing else may excuse it.
        same = _same_lease(session, claim, terms, now)
        if same is None:
            raise
        return same


def _grant(session: Session, job: Job, claim: Claim, terms: Terms, now: datetime) -> Lease:
    number = job.attempt + 1
    attempt = Attempt(
        job_id=job.id,
        number=number,
        worker=claim.worker,
        claim_id=claim.claim_id,
        secret=secrets.token_hex(32),
        state=AttemptState.GRANTED,
        granted_at=now,
        lease_expires_at=now + terms.lease,
        reason="",
    )
    session.add(attempt)
    session.flush()  # before its job, whose event in the log takes its holder and time from it
    still = {"id": job.id, "state": JobState.QUEUED, "attempt": job.attempt}
    require(change(session, Job, still, state=JobState.LEASED, attempt=number))
    groups.keep(session, job, claim.worker)
    return _lease_of(job, attempt, terms)


def _same_lease(session: Session, claim: Claim, terms: Terms, now: datetime) -> Lease | None:
    attempt = session.execute(_SAME, {"claim_id": claim.claim_id}).scalar()
    if attempt is None:
        return None
    if attempt.worker != claim.worker:
        raise Conflict("Another worker used this claim id; draw a fresh one.")
    # The worker counts the lease from its latest request, so ours must not end before.
    holder = Holder(attempt.job_id, attempt.number, attempt.secret)
    change_attempt(session, holder, *LIVE, lease_expires_at=now + terms.lease)
    job = session.get_one(Job, attempt.job_id)
    return _lease_of(job, attempt, terms)


def _lease_of(job: Job, attempt: Attempt, terms: Terms) -> Lease:
    return Lease(
        job_id=job.id,
        attempt=attempt.number,
        secret=attempt.secret,
        spec=JobSpec.model_validate(job.spec),
        lease_s=terms.lease.total_seconds(),
        heartbeat_s=terms.heartbeat.total_seconds(),
        group=job.group_id,
    )


def _requirements(
    session: Session, specs: Sequence[JobSpec]
) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The digest of each spec's requirement set; and the sets that nobody had asked for before."""
    digests = [record.facts_digest(spec.requires) for spec in specs]
    asked = {digest: spec.requires for digest, spec in zip(digests, specs, strict=True)}
    new = {
        digest: labels
        for digest, labels in asked.items()
        if insert_if_absent(session, _REQUIREMENTS, {"digest": digest, "labels": labels})
    }
    return digests, new
