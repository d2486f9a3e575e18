"""Compare-and-swap: say what you saw, and learn whether you won."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import ColumnElement, Table, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobState
from service.database import rows
from service.models import Attempt, Base, Job
from service.queue.values import Holder

LIVE = (AttemptState.GRANTED, AttemptState.STARTED)
HELD = (JobState.LEASED, JobState.RUNNING)
OVER = "This attempt is over or was never yours; stop it and claim other work."


def change_attempt(
    session: Session, holder: Holder, *seen: ColumnElement[bool], **values: object
) -> bool:
    """Change an attempt if number, secret and worker are right and it is as seen."""
    fence = [
        Attempt.job_id == holder.job_id,
        Attempt.number == holder.number,
        Attempt.secret == holder.secret,
    ]
    if holder.worker is not None:
        fence.append(Attempt.worker == holder.worker)
    return change(session, Attempt, *fence, *seen, **values)


def change_job(
    session: Session, holder: Holder, *seen: ColumnElement[bool], **values: object
) -> bool:
    """Change a job if the holder's attempt is its latest and it is as seen."""
    fence = (Job.id == holder.job_id, Job.attempt == holder.number)
    return change(session, Job, *fence, *seen, **values)


def change(
    session: Session, table: type[Base], *seen: ColumnElement[bool], **values: object
) -> bool:
    """Change one row if it is still as the caller saw it; say whether it was."""
    # Of the table: as a change of the class it would take twice as long to prepare, to bring
    # objects up to date that nobody looks at again.
    plain = cast(Table, table.__table__)
    return rows(session, update(plain).where(*seen).values(**values)) == 1


def lock_job(session: Session, job_id: str) -> bool:
    """Keep a job from others until this transaction ends; say whether there is one."""
    wanted = select(Job.id).where(Job.id == job_id).with_for_update()
    return session.execute(wanted).first() is not None


def must(done: bool) -> None:
    """Undo the whole transaction if a change that cannot fail did."""
    if not done:
        raise RuntimeError("job and attempt disagree: the transaction is undone")


def cancel_held(session: Session, holder: Holder, now: datetime) -> bool:
    """End a job whose cancelling was asked for and whose worker has let go of it."""
    lock_job(session, holder.job_id)  # a cancel that is being written now is waited for, and seen
    ended = {"state": JobState.CANCELLED, "finished_at": now, "reason": "Cancelled while it ran."}
    return change_job(session, holder, Job.state.in_(HELD), Job.cancel_requested.is_(True), **ended)


def requeue(session: Session, holder: Holder, now: datetime) -> bool:
    """Put a held job back into the queue, at its old place."""
    return change_job(session, holder, Job.state.in_(HELD), state=JobState.QUEUED, queued_at=now)
