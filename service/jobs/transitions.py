"""Compare-and-swap: say what you saw, and learn whether you won."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, cast

from sqlalchemy import Table, bindparam, or_, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobState
from service.database.prepared import Prepared, Runner
from service.jobs.types import Holder
from service.models import Attempt, Base, Job

LIVE = (AttemptState.GRANTED, AttemptState.STARTED)
HELD = (JobState.LEASED, JobState.RUNNING)
OVER = "This attempt is over or was never yours; stop it and claim other work."

Seen = Mapping[str, object]
"""What the caller saw, by column; a tuple says that it was one of these."""


def change_attempt(on: Runner, holder: Holder, *states: AttemptState, **values: object) -> bool:
    """Change an attempt if number, secret and worker are right and its state is one of these."""
    fence = {"job_id": holder.job_id, "number": holder.number, "secret": holder.secret}
    if holder.worker is not None:
        fence["worker"] = holder.worker
    return change(on, Attempt, {**fence, "state": states}, **values)


def change_job(on: Runner, holder: Holder, *states: JobState, **values: object) -> bool:
    """Change a job if the holder's attempt is its latest and its state is one of these."""
    fence = {"id": holder.job_id, "attempt": holder.number, "state": states}
    return change(on, Job, fence, **values)


def change(on: Runner, table: type[Base], seen: Seen, **values: object) -> bool:
    """Change one row if it is still as the caller saw it; say whether it was."""
    known = {name: one if isinstance(one, tuple) else (one,) for name, one in seen.items()}
    shape = tuple((name, len(one)) for name, one in known.items())
    parameters = {f"new_{name}": value for name, value in values.items()}
    parameters |= {
        f"{name}_{n}": value for name, one in known.items() for n, value in enumerate(one)
    }
    return _change(cast(Table, table.__table__), shape, tuple(values)).count(on, **parameters) == 1


@cache
def _change(table: Table, shape: tuple[tuple[str, int], ...], new: tuple[str, ...]) -> Prepared:
    """Prepare ``UPDATE table SET new ... WHERE``, where a column may have one of several values."""
    seen = (
        or_(*(table.c[name] == bindparam(f"{name}_{n}") for n in range(count)))
        for name, count in shape
    )
    values: dict[Any, Any] = {table.c[name]: bindparam(f"new_{name}") for name in new}
    return Prepared(update(table).where(*seen).values(values))


_LOCK = select(Job.group_id).where(Job.id == bindparam("job_id")).with_for_update()


def lock_job(session: Session, job_id: str) -> str | None:
    """Keep a job from others until this transaction ends; its group, None if there is no job."""
    return session.execute(_LOCK, {"job_id": job_id}).scalar()


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
