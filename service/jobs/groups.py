"""The replicates of one case: each is a process and a job, and the jobs of a case are a group.

A submission's jobs are queued in rounds, one replicate of every case in each. Every other round
goes the other way (A B C, C B A, A B C), so that a drift of the machine favours no case.

The worker that begins a group is to measure all of it: its replicates are kept for that worker, and
for nobody once it has not been heard of for a while. A group ends with the first of its jobs that
does not succeed, as no history takes a part of it.

Jobs beside the caller's own are changed where nobody else changes them at this moment (``SKIP
LOCKED``), so that no two of a group wait for each other in a ring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, exists, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobSpec, JobState
from service.jobs import eligibility, transitions
from service.jobs.types import Holder
from service.models import Attempt, Eligibility, Job, WorkerRow

_KEPT = (Job.kept_for.is_not(None), Job.state == JobState.QUEUED)
_SILENT = {"synchronize_session": False}


def rounds(specs: Sequence[JobSpec]) -> Iterator[tuple[int, JobSpec]]:
    """Yield the position and the spec of every job of these cases, in the order of the queue."""
    cases = list(enumerate(specs))
    for replicate in range(1, max((spec.protocol.replicates for spec in specs), default=0) + 1):
        for position, spec in cases if replicate % 2 else reversed(cases):
            if replicate <= spec.protocol.replicates:
                protocol = spec.protocol.of_replicate(replicate)
                update = {"replicate": replicate, "protocol": protocol}
                yield position, spec.model_copy(update=update)


def keep(session: Session, job_id: str, group_id: str, worker: str) -> None:
    """Keep a job and what is queued of its group for the worker that it was just given to."""
    transitions.change(session, Job, {"id": job_id}, kept_for=worker)
    mine = update(Job).where(Job.id.in_(_free_to_change(group_id, JobState.QUEUED)))
    session.execute(mine.values(kept_for=worker), execution_options=_SILENT)


def requeue(session: Session, holder: Holder, now: datetime) -> bool:
    """Put a held job back into the queue, at its old place; say whether it was held.

    If its worker has nothing else of the group, anybody may begin it.
    """
    if not transitions.change_job(
        session, holder, *transitions.HELD, state=JobState.QUEUED, queued_at=now
    ):
        return False
    row = session.execute(
        select(Job.id, Job.group_id, Job.requires, Job.rank, Job.kept_for).where(
            Job.id == holder.job_id
        )
    ).one()
    if row.kept_for is not None and not _has_begun(session, row.group_id, row.kept_for):
        _free(session, Job.group_id == row.group_id)
    else:
        eligibility.wake(session, {row.requires: (row.rank, row.id)}, row.kept_for)
    return True


def end(session: Session, group_id: str, reason: str, now: datetime) -> None:
    """Cancel what is queued of a group, and ask for that at the workers that measure the rest."""
    ended = {"state": JobState.CANCELLED, "finished_at": now, "reason": reason}
    for states, values in (((JobState.QUEUED,), ended), (transitions.HELD, {})):
        others = update(Job).where(Job.id.in_(_free_to_change(group_id, *states)))
        session.execute(others.values(cancel_requested=True, **values), execution_options=_SILENT)


def release_absent(session: Session, patience: timedelta, now: datetime) -> int:
    """Let others measure what is kept for workers that are gone, or that may not do it any more.

    Returns how many jobs that are.

    Args:
        session: to change them in.
        patience: a worker that was not seen for so long is gone.
        now: the time.
    """
    gone = select(WorkerRow.name).where(WorkerRow.last_seen_at < now - patience)
    met = exists().where(Eligibility.worker == Job.kept_for, Eligibility.requires == Job.requires)
    return _free(session, Job.kept_for.in_(gone), Job.queued_at < now - patience) + _free(
        session, ~met
    )


def reset_patience(session: Session, now: datetime) -> None:
    """Be patient anew with every worker: they could not be heard, and not by their own fault."""
    session.execute(update(Job).where(*_KEPT).values(queued_at=now))


def _has_begun(session: Session, group_id: str, worker: str) -> bool:
    """Return True if a worker holds a job of a group, or has measured one."""
    begun = (*transitions.LIVE, AttemptState.SUCCEEDED)
    query = (
        select(Attempt.job_id)
        .join(Job, Job.id == Attempt.job_id)
        .where(Job.group_id == group_id, Attempt.worker == worker, Attempt.state.in_(begun))
    )
    return session.execute(query.limit(1)).first() is not None


def _free(session: Session, *which: ColumnElement[bool]) -> int:
    freed = update(Job).where(*_KEPT, *which).values(kept_for=None)
    stand = freed.returning(Job.requires, Job.rank, Job.id)
    freed_jobs = session.execute(stand, execution_options=_SILENT).all()
    eligibility.wake(
        session, eligibility.heads((row.requires, row.rank, row.id) for row in freed_jobs)
    )
    return len(freed_jobs)


def _free_to_change(group_id: str, *states: JobState) -> Select[str]:
    jobs = select(Job.id).where(Job.group_id == group_id, Job.state.in_(states))
    return jobs.with_for_update(skip_locked=True)
