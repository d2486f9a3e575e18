"""What the holder of an attempt may do with it: start, renew, complete, give back."""

from __future__ import annotations

import hmac
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobSpec, JobState, Progress, Renewal, Result, Status
from benchmarks.merge import merge
from service import results
from service.errors import Conflict, Fenced, NotFound
from service.models import Attempt, Job, ResultRow, WorkerRow
from service.plausible import check_result
from service.queue import turns
from service.queue.swap import (
    LIVE,
    OVER,
    cancel_held,
    change,
    change_attempt,
    change_job,
    must,
    requeue,
)
from service.queue.values import Completion, Holder, Terms
from service.results.write import Written

_OUTCOMES = {
    Status.OK: (AttemptState.SUCCEEDED, JobState.SUCCEEDED),
    Status.TIMEOUT: (AttemptState.TIMED_OUT, JobState.FAILED),
    Status.CANCELLED: (AttemptState.CANCELLED, JobState.CANCELLED),
}
_FAILED = (AttemptState.FAILED, JobState.FAILED)


def start(session: Session, holder: Holder, terms: Terms, now: datetime) -> None:
    """Say that the measurement runs; repeating it changes nothing.

    Raises:
        Fenced: the attempt is over.
    """
    if _start_if_granted(session, holder, now, lease_expires_at=now + terms.lease):
        return
    running = Attempt.state == AttemptState.STARTED
    if not change_attempt(session, holder, running, lease_expires_at=now + terms.lease):
        raise Fenced(OVER)


def heartbeat(
    session: Session, holder: Holder, progress: Progress | None, terms: Terms, now: datetime
) -> Renewal:
    """Extend the lease, note the progress, and tell whether the job was cancelled.

    Raises:
        Fenced: the attempt is over.
    """
    values: dict[str, Any] = {"lease_expires_at": now + terms.lease}
    if progress is not None:
        values["progress"] = progress.model_dump(mode="json")
    if not change_attempt(session, holder, Attempt.state.in_(LIVE), **values):
        raise Fenced(OVER)
    row = session.execute(
        select(Job.cancel_requested, Attempt.worker)
        .join(Attempt, Attempt.job_id == Job.id)
        .where(Job.id == holder.job_id, Attempt.number == holder.number)
    ).one()
    change(session, WorkerRow, WorkerRow.name == row.worker, last_seen_at=now)
    return Renewal(lease_s=terms.lease.total_seconds(), cancel=row.cancel_requested)


def complete(session: Session, holder: Holder, result: Result, now: datetime) -> Completion:
    """Take a result: end the attempt and the job and count it, all or nothing.

    A result that comes after its attempt ended otherwise is kept and shown, and never counted.

    Raises:
        NotFound: there is no such attempt.
        Fenced: the secret is not this attempt's, or the token is another worker's.
        Conflict: the attempt was completed with another result.
        Invalid: the result is not of this job's case, or contradicts itself.
    """
    attempt, job = _held(session, holder)
    spec = JobSpec.model_validate(job.spec)
    check_result(spec, result)
    posted = results.written(result)
    known = _result_of(session, holder, posted.digest)
    if known is not None:
        return known
    earlier = turns.fitting(session, job, result)
    if turns.has_more(spec, earlier, result):
        return _take_turn(session, attempt, job, posted, len(earlier) + 1, now)
    attempt_state, job_state = _OUTCOMES.get(result.status, _FAILED)
    if attempt.state == AttemptState.GRANTED:
        _start_if_granted(session, holder, now)
    ending: dict[str, Any] = {"state": attempt_state, "ended_at": now, "reason": result.reason}
    counted = change_attempt(session, holder, Attempt.state == AttemptState.STARTED, **ending)
    if counted:
        done = {"state": job_state, "finished_at": now, "reason": result.reason}
        must(change_job(session, holder, Job.state == JobState.RUNNING, **done))
    elif _has_counted(session, holder):
        raise Conflict("This attempt was completed with another result, which stays.")
    kept = posted
    if counted and earlier:
        kept = results.written(merge([*earlier, result]))
    if kept.digest != posted.digest:  # what was posted stays as well
        results.record(session, job, attempt, posted, now, turn=len(earlier) + 1)
    stored = results.record(session, job, attempt, kept, now, counted=counted)
    return Completion(stored, counted=counted, created=True)


def _take_turn(
    session: Session, attempt: Attempt, job: Job, posted: Written, turn: int, now: datetime
) -> Completion:
    """Keep one process of several; the job waits until the others of its submission had theirs."""
    holder = Holder(job.id, attempt.number, attempt.secret)
    _start_if_granted(session, holder, now)
    told = f"Process {turn} of {turns.wanted(job)}; the next one waits for its turn."
    ending = {"state": AttemptState.SUCCEEDED, "ended_at": now, "reason": told}
    taken = change_attempt(session, holder, Attempt.state == AttemptState.STARTED, **ending)
    if taken and not cancel_held(session, holder, now):
        must(turns.put_behind(session, holder, attempt.worker, job, turn, now))
    kept_as = turn if taken else None
    stored = results.record(session, job, attempt, posted, now, counted=False, turn=kept_as)
    return Completion(stored, counted=taken, created=True)


def release(session: Session, holder: Holder, reason: str, now: datetime) -> None:
    """Take a job back unharmed from a worker that stops: queued again, nothing counts as lost.

    Raises:
        Fenced: the attempt is over.
    """
    ending = {"state": AttemptState.REJECTED, "ended_at": now, "reason": reason}
    if not change_attempt(session, holder, Attempt.state.in_(LIVE), **ending):
        raise Fenced(OVER)
    if not cancel_held(session, holder, now):
        must(requeue(session, holder, now))


def _start_if_granted(session: Session, holder: Holder, now: datetime, **more: object) -> bool:
    """Start an attempt that was not; a result without a start still has one in its history."""
    started = {"state": AttemptState.STARTED, "started_at": now, **more}
    if not change_attempt(session, holder, Attempt.state == AttemptState.GRANTED, **started):
        return False
    leased = Job.state == JobState.LEASED
    must(change_job(session, holder, leased, state=JobState.RUNNING))
    return True


def _held(session: Session, holder: Holder) -> tuple[Attempt, Job]:
    """The attempt, locked, and its job, if the secret is right."""
    attempt = session.get(Attempt, (holder.job_id, holder.number), with_for_update=True)
    if attempt is None:
        raise NotFound("There is no such attempt; GET /api/v1/jobs/{id} lists a job's attempts.")
    if not hmac.compare_digest(attempt.secret.encode(), holder.secret.encode()):
        raise Fenced(OVER)
    if holder.worker not in (None, attempt.worker):
        raise Fenced(OVER)
    return attempt, session.get_one(Job, holder.job_id)


def _result_of(session: Session, holder: Holder, digest: str) -> Completion | None:
    row = session.execute(
        select(ResultRow.id, ResultRow.counted, ResultRow.turn).where(
            ResultRow.job_id == holder.job_id,
            ResultRow.attempt == holder.number,
            ResultRow.digest == digest,
        )
    ).first()
    if row is None:
        return None
    return Completion(row.id, counted=row.counted or row.turn is not None, created=False)


def _has_counted(session: Session, holder: Holder) -> bool:
    counted = select(ResultRow.id).where(
        ResultRow.job_id == holder.job_id, ResultRow.attempt == holder.number, ResultRow.counted
    )
    return session.execute(counted).first() is not None
