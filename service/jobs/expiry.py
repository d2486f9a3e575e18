"""Ends what nobody holds any more: cancelled jobs, expired leases."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobState
from service.database.session import rows
from service.jobs import groups, transitions
from service.jobs.types import Holder, Swept, Terms
from service.models import Attempt, Job
from service.schemas.errors import NotFound


def cancel(session: Session, job_id: str, now: datetime) -> None:
    """Cancel a job and those of its group: at once while queued, else at the next heartbeat.

    A job that has ended stays as it is.

    Raises:
        NotFound: there is no such job.
    """
    # Locked, so that no requeue comes between the two changes below and neither applies.
    group_id = transitions.lock_job(session, job_id)
    if group_id is None:
        raise NotFound("There is no such job; GET /api/v1/jobs lists them.")
    ended = {"state": JobState.CANCELLED, "finished_at": now, "cancel_requested": True}
    queued = {"id": job_id, "state": JobState.QUEUED}
    if not transitions.change(
        session, Job, queued | {"attempt": 0}, **ended, reason="Cancelled before it ran."
    ):
        transitions.change(
            session, Job, queued, **ended, reason="Cancelled before another attempt began."
        )
    groups.end(session, group_id, "Cancelled with another replicate of its case.", now)


def sweep(session: Session, terms: Terms, now: datetime) -> Swept:
    """End every attempt whose lease has expired; safe on any number of replicas at once."""
    expired = (
        select(Attempt.job_id, Attempt.number, Attempt.secret)
        .where(Attempt.state.in_(transitions.LIVE), Attempt.lease_expires_at < now)
        .order_by(Attempt.job_id)
        .limit(500)
        .with_for_update(skip_locked=True)
    )
    states = [_lose(session, Holder(*row), terms, now) for row in session.execute(expired)]
    groups.release_absent(session, terms.patience, now)
    return Swept(
        requeued=states.count(JobState.QUEUED),
        quarantined=states.count(JobState.QUARANTINED),
        cancelled=states.count(JobState.CANCELLED),
    )


def extend_all_leases(session: Session, terms: Terms, now: datetime) -> int:
    """Let every live lease end at now + lease: what could not be heard is no worker's fault.

    For a service that was down, one whose database was away, and a clock that was set: forward it
    would end every lease at once, back it would keep dead workers' leases. Returns how many moved.
    """
    groups.reset_patience(session, now)
    until = now + terms.lease
    extended = (
        update(Attempt)
        .where(Attempt.state.in_(transitions.LIVE), Attempt.lease_expires_at != until)
        .values(lease_expires_at=until)
    )
    return rows(session, extended)


def _lose(session: Session, holder: Holder, terms: Terms, now: datetime) -> JobState | None:
    ending = {
        "state": AttemptState.LOST,
        "ended_at": now,
        "reason": "No heartbeat came before the lease expired.",
    }
    # Its row is locked since it was found, so nobody has renewed the lease meanwhile.
    if not transitions.change_attempt(session, holder, *transitions.LIVE, **ending):
        return None
    if transitions.cancel_held(session, holder, now):
        return JobState.CANCELLED
    if _count_loss(session, holder) < terms.max_lost_attempts:
        transitions.require(groups.requeue(session, holder, now))
        return JobState.QUEUED
    spent = {
        "state": JobState.QUARANTINED,
        "finished_at": now,
        "reason": f"{terms.max_lost_attempts} attempts were lost; look at their workers, "
        "then submit the job again.",
    }
    transitions.require(transitions.change_job(session, holder, *transitions.HELD, **spent))
    group_id = session.scalars(select(Job.group_id).where(Job.id == holder.job_id)).one()
    groups.end(session, group_id, "Another replicate of its case is quarantined.", now)
    return JobState.QUARANTINED


def _count_loss(session: Session, holder: Holder) -> int:
    counted = update(Job).where(Job.id == holder.job_id, Job.attempt == holder.number)
    lost = counted.values(lost_attempts=Job.lost_attempts + 1).returning(Job.lost_attempts)
    silent = lost.execution_options(synchronize_session=False)
    return session.execute(silent).scalar_one()
