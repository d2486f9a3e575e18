"""A job whose processes run in turn with those of the other jobs of its submission.

After each process the job goes back into the queue, behind all others of its submission, and is
kept for the worker that has begun it: its processes must be of one device. Every other round goes
the other way (A B C, C B A, A B C), so that a drift of the machine favours no case. With the last
process the results of all of them become the job's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import JobSpec, JobState, Result, Status
from service import results
from service.database import rows
from service.models import Job, ResultRow, WorkerRow
from service.queue.swap import HELD, change_job
from service.queue.values import Held

_KEPT = (Job.kept_for.is_not(None), Job.state == JobState.QUEUED)
"""Between two turns."""


def wanted(held: Held) -> int:
    """Processes that the job has in all."""
    return held.spec.protocol.replicates


def fitting(session: Session, held: Held, result: Result) -> list[Result]:
    """What the job's turns measured before ``result``, in order, and belongs to it.

    What was measured in another environment (with another driver, say) is no part of the same
    result: the job's turns then begin again with this one.
    """
    earlier = measured(session, held)
    same = all(each.environment == result.environment for each in earlier)
    return earlier if same or result.status is not Status.OK else []


def has_more(spec: JobSpec, earlier: Sequence[Result], result: Result) -> bool:
    """Whether ``result`` is one turn of the job, and not its last."""
    after = len(earlier) + processes(result)
    return spec.in_turn and result.status is Status.OK and after < spec.protocol.replicates


def processes(result: Result) -> int:
    """How many processes a result is of: one, unless a worker measured the whole job at once."""
    return max((len(sample.values) for sample in result.samples), default=1)


def put_behind(session: Session, held: Held, turn: int, now: datetime) -> bool:
    """Queue the job again, behind the others of its submission; say whether it was held still.

    Args:
        session: to change it in.
        held: the job, and the attempt that took the turn; its worker keeps the job.
        turn: which one, from 1.
        now: the time.
    """
    return change_job(
        session,
        held.holder,
        *HELD,
        state=JobState.QUEUED,
        queued_at=now,
        turns=turn,
        kept_for=held.worker,
        place=_place(session, held, turn),
    )


def measured(session: Session, held: Held) -> list[Result]:
    """The results of the job's turns so far, in order."""
    if not held.turns:
        return []
    kept = (
        select(ResultRow.id, ResultRow.turn)
        .where(ResultRow.job_id == held.holder.job_id, ResultRow.turn.is_not(None))
        .order_by(ResultRow.attempt)
    )
    # After a new beginning a turn has several; the latest is meant.
    last = {turn: result_id for result_id, turn in session.execute(kept)}
    ids = [last[turn] for turn in range(1, held.turns + 1)]
    return [results.load_result(session, result_id).result for result_id in ids]


def forget_absent(session: Session, patience: timedelta, now: datetime) -> int:
    """Let others begin anew what is kept for workers that are gone; return how many jobs.

    Args:
        session: to change them in.
        patience: a worker that was not seen for so long has no turn any more.
        now: the time.
    """
    gone = select(WorkerRow.name).where(WorkerRow.last_seen_at < now - patience)
    stale = Job.kept_for.in_(gone), Job.queued_at < now - patience
    return rows(session, update(Job).where(*_KEPT, *stale).values(turns=0, kept_for=None))


def wait_on(session: Session, now: datetime) -> None:
    """Be patient anew with every worker: they could not be heard, and not by their own fault."""
    session.execute(update(Job).where(*_KEPT).values(queued_at=now))


def _place(session: Session, held: Held, turns: int) -> str:
    """Behind every job of the submission and before every later one; each round the other way."""
    own = Job.submission_id == held.submission_id
    last, count = session.execute(select(func.max(Job.id), func.count()).where(own)).one()
    position = held.position if turns % 2 == 0 else count - 1 - held.position
    return f"{last}.{turns:02}.{position:05}"
