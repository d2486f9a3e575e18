"""A job whose processes run in turn with those of the other jobs of its submission.

After each process the job goes back into the queue, behind all others of its submission, and is
kept for the worker that has begun it: its processes must be of one device. Every other round goes
the other way (A B C, C B A, A B C), so that a drift of the machine favours no case. With the last
process the results of all of them become the job's result.

Where the environment changes in between, the job begins anew with its first process, which alone
measures what is asked for beside timing and finds cold caches; where it changes again and again,
the job ends and says what differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from sqlalchemy import ColumnElement, exists, func, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import JobSpec, JobState, Result, Status, line
from benchmarks.diagnosis.merge import case_of
from service.errors import Invalid
from service.history import queries
from service.jobs import eligibility
from service.jobs.transitions import HELD, change_job
from service.jobs.types import Held
from service.models import Eligibility, Job, ResultRow, WorkerRow

MOST_CHANGES = 3
"""Changes of the environment from one process of a job to the next that end it. A driver that is
replaced, and put back, is two; what changes with every process would let the job begin for ever."""
_FACTS_NAMED = 3
_VALUE_SHOWN = 40
"""Characters of a fact's value in a sentence, which must stay one line."""
_MIXED = (
    "The result is of another preset than the job's earlier processes; all must be of the same one."
)
_KEPT = (Job.kept_for.is_not(None), Job.state == JobState.QUEUED)
"""Between two turns."""


def wanted(held: Held) -> int:
    """Processes that the job has in all."""
    return held.spec.protocol.replicates


def earlier_turns(session: Session, held: Held, result: Result) -> list[Result]:
    """Return the results of the job's turns before ``result`` that belong with it, in order.

    A good ``result`` of another environment (of another driver, say) does not belong with the
    earlier ones: none is returned then, and the job begins anew.

    Raises:
        Invalid: it is of another preset than they are, so they could never become one result.
    """
    earlier = measured(session, held)
    same = all(each.environment == result.environment for each in earlier)
    if not same and result.status is Status.OK:
        return []
    try:
        case_of([*earlier, result])
    except ValueError:
        raise Invalid(_MIXED) from None
    return earlier


def environment_keeps_changing(
    session: Session, held: Held, earlier: Sequence[Result], result: Result
) -> Result | None:
    """Return ``result`` as the error that ends a job whose environment keeps changing; else None.

    Args:
        session: to read in.
        held: the job, and the attempt that took the turn.
        earlier: what `earlier_turns` found.
        result: the newest turn's.
    """
    if not begins_anew(held, earlier):
        return None
    seen = session.scalars(
        select(ResultRow.environment)
        .where(ResultRow.job_id == held.holder.job_id, ResultRow.worker == held.worker)
        .where(ResultRow.turn.is_not(None))
        .order_by(ResultRow.attempt)
    ).all()
    changes = sum(one != other for one, other in pairwise(seen)) + 1  # and the one of now
    if changes < MOST_CHANGES:
        return None
    before, after = measured(session, held)[-1].environment.facts, result.environment.facts
    named = ", ".join(_differences(before, after))
    ended = {
        "status": Status.INFRA_ERROR,
        "reason": line(f"Its environment differs from process to process: {named}."),
        "samples": (),
        "verdict": None,
        "efficiency": None,
    }
    return result.model_copy(update=ended)


def begins_anew(held: Held, earlier: Sequence[Result]) -> bool:
    """Return True if the job had turns, and none of them belongs with the newest."""
    return held.turns > 0 and not earlier


def has_more(spec: JobSpec, earlier: Sequence[Result], result: Result) -> bool:
    """Return True if ``result`` is one turn of the job, and not its last."""
    after = len(earlier) + processes(result)
    return spec.in_turn and result.status is Status.OK and after < spec.protocol.replicates


def processes(result: Result) -> int:
    """Count the processes of a result: one, unless a worker measured the whole job at once."""
    return max((len(sample.values) for sample in result.samples), default=1)


def requeue_last(session: Session, held: Held, had: int, now: datetime) -> bool:
    """Queue the job again, behind those of its submission that had no more turns than it.

    Returns whether it was held still.

    Args:
        session: to change it in.
        held: the job, and the attempt that took the turn; its worker keeps the job.
        had: how many turns it has had; none if it begins anew.
        now: the time.
    """
    place = _place(session, held, had)
    queued = change_job(
        session,
        held.holder,
        *HELD,
        state=JobState.QUEUED,
        queued_at=now,
        turns=had,
        kept_for=held.worker,
        place=place,
    )
    if queued:
        stands = {held.requires: (-held.spec.priority, place)}
        eligibility.wake(session, stands, held.worker)
    return queued


def measured(session: Session, held: Held) -> list[Result]:
    """The results of the job's turns so far, in order."""
    if not held.turns:
        return []
    kept = (
        select(ResultRow.id, ResultRow.turn)
        .where(ResultRow.job_id == held.holder.job_id, ResultRow.turn.is_not(None))
        .order_by(ResultRow.attempt)
    )
    # Where the job began anew a turn has several; the latest is meant.
    last = {turn: result_id for result_id, turn in session.execute(kept)}
    ids = [last[turn] for turn in range(1, held.turns + 1)]
    return [queries.load_result(session, result_id).result for result_id in ids]


def release_absent(session: Session, patience: timedelta, now: datetime) -> int:
    """Let others begin anew what is kept for workers that are gone, or that may not do it any more.

    Returns how many jobs that are.

    Args:
        session: to change them in.
        patience: a worker that was not seen for so long has no turn any more.
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


def _free(session: Session, *which: ColumnElement[bool]) -> int:
    """Let any worker begin jobs that are kept for one; return how many."""
    freed = update(Job).where(*_KEPT, *which).values(turns=0, kept_for=None)
    stand = freed.returning(Job.requires, Job.rank, Job.place)
    found = session.execute(stand, execution_options={"synchronize_session": False}).all()
    eligibility.wake(
        session, eligibility.heads((row.requires, row.rank, row.place) for row in found)
    )
    return len(found)


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[str]:
    """Such as ``sw.data (a -> b)``, of the facts that differ; how many more there are."""
    names = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    for name in names[:_FACTS_NAMED]:
        yield f"{name} ({_shown(before.get(name))} -> {_shown(after.get(name))})"
    if len(names) > _FACTS_NAMED:
        yield f"and {len(names) - _FACTS_NAMED} more"


def _shown(value: str | None) -> str:
    if value is None:
        return "none"
    return value if len(value) <= _VALUE_SHOWN else f"{value[:_VALUE_SHOWN]}..."


def _place(session: Session, held: Held, turns: int) -> str:
    """Behind every job of the submission and before every later one; each round the other way."""
    own = Job.submission_id == held.submission_id
    last, count = session.execute(select(func.max(Job.id), func.count()).where(own)).one()
    position = held.position if turns % 2 == 0 else count - 1 - held.position
    return f"{last}.{turns:02}.{position:05}"
