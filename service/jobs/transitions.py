"""Compare-and-swap: say what you saw, and learn whether you won."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import cast

from sqlalchemy import Table, Update, bindparam, or_, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobState
from service.database.session import rows
from service.jobs import eligibility
from service.jobs.types import Holder
from service.models import Attempt, Base, Job

LIVE = (AttemptState.GRANTED, AttemptState.STARTED)
HELD = (JobState.LEASED, JobState.RUNNING)
OVER = "This attempt is over or was never yours; stop it and claim other work."

Seen = Mapping[str, object]
"""What the caller saw, by column; a tuple says that it was one of these."""


def change_attempt(
    session: Session, holder: Holder, *states: AttemptState, **values: object
) -> bool:
    """Change an attempt if number, secret and worker are right and its state is one of these."""
    fence = {"job_id": holder.job_id, "number": holder.number, "secret": holder.secret}
    if holder.worker is not None:
        fence["worker"] = holder.worker
    return change(session, Attempt, {**fence, "state": states}, **values)


def change_job(session: Session, holder: Holder, *states: JobState, **values: object) -> bool:
    """Change a job if the holder's attempt is its latest and its state is one of these."""
    fence = {"id": holder.job_id, "attempt": holder.number, "state": states}
    return change(session, Job, fence, **values)


def change(session: Session, table: type[Base], seen: Seen, **values: object) -> bool:
    """Change one row if it is still as the caller saw it; say whether it was."""
    known = [(name, one if isinstance(one, tuple) else (one,)) for name, one in seen.items()]
    told = {_told(name, n): value for name, one in known for n, value in enumerate(one)}
    shape = tuple((name, len(one)) for name, one in known)
    return rows(session, _change(cast(Table, table.__table__), shape), told | values) == 1


@cache
def _change(table: Table, shape: tuple[tuple[str, int], ...]) -> Update:
    """A change of what it is told, where columns have one of so many values that it is told too.

    Kept, because to build it takes several times as long as to run it; of the table, because one
    of the class brings objects up to date that nobody looks at again.
    """
    seen = (
        or_(*(table.c[name] == bindparam(_told(name, n)) for n in range(count)))
        for name, count in shape
    )
    return update(table).where(*seen)


def _told(name: str, number: int) -> str:
    return f"seen_{name}_{number}"


_JOBS = cast(Table, Job.__table__)
_STANDS = select(_JOBS.c.requires, _JOBS.c.rank, _JOBS.c.place, _JOBS.c.kept_for).where(
    _JOBS.c.id == bindparam("job_id")
)
_LOCK = select(Job.id).where(Job.id == bindparam("job_id")).with_for_update()


def lock_job(session: Session, job_id: str) -> bool:
    """Keep a job from others until this transaction ends; say whether there is one."""
    return session.execute(_LOCK, {"job_id": job_id}).first() is not None


def require(done: bool) -> None:
    """Undo the whole transaction if a change that cannot fail did."""
    if not done:
        raise RuntimeError("job and attempt disagree: the transaction is undone")


def cancel_held(session: Session, holder: Holder, now: datetime) -> bool:
    """End a job whose cancelling was asked for and whose worker has let go of it."""
    lock_job(session, holder.job_id)  # a cancel that is being written now is waited for, and seen
    ended = {"state": JobState.CANCELLED, "finished_at": now, "reason": "Cancelled while it ran."}
    seen = {"id": holder.job_id, "attempt": holder.number, "state": HELD, "cancel_requested": True}
    return change(session, Job, seen, **ended)


def requeue(session: Session, holder: Holder, now: datetime) -> bool:
    """Put a held job back into the queue, at its old place."""
    if not change_job(session, holder, *HELD, state=JobState.QUEUED, queued_at=now):
        return False
    row = session.execute(_STANDS, {"job_id": holder.job_id}).one()
    eligibility.wake(session, {row.requires: (row.rank, row.place)}, row.kept_for)
    return True
