"""The actions that the holder of an attempt may take: start, renew, complete, give back."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.artifact_kinds import ArtifactKind
from benchmarks.contracts.pins import contradiction
from service.database.prepared import Prepared, Runner, session_on
from service.database.session import check_time
from service.history import record
from service.history.types import Origin
from service.jobs import groups, transitions
from service.jobs.types import Completion, Held, Holder, Terms
from service.models import Attempt, ComparisonJob, Job, ResultRow, WorkerRow
from service.schemas.errors import Conflict, Fenced, Invalid, NotFound

_JOBS, _ATTEMPTS = cast(Table, Job.__table__), cast(Table, Attempt.__table__)
_OF_COMPARISONS = cast(Table, ComparisonJob.__table__)
_LIVE = {"granted": contracts.AttemptState.GRANTED, "started": contracts.AttemptState.STARTED}
_BEATING = (
    update(_ATTEMPTS)
    .where(_ATTEMPTS.c.job_id == bindparam("of_job"))
    .where(_ATTEMPTS.c.number == bindparam("of_number"))
    .where(_ATTEMPTS.c.secret == bindparam("of_secret"))
    .where(_ATTEMPTS.c.worker == func.coalesce(bindparam("any_worker"), _ATTEMPTS.c.worker))
    .where(or_(*(_ATTEMPTS.c.state == bindparam(name) for name in _LIVE)))
    .values(lease_expires_at=bindparam("until"))
    .returning(
        _ATTEMPTS.c.worker,
        select(_JOBS.c.cancel_requested).where(_JOBS.c.id == _ATTEMPTS.c.job_id).scalar_subquery(),
    )
)
_TOLD: tuple[tuple[str, ...], ...] = ((), ("progress",), ("log_tail",), ("progress", "log_tail"))
_BEATS = {
    told: Prepared(_BEATING.values({name: bindparam(f"new_{name}") for name in told}))
    for told in _TOLD
}
"""The statements of heartbeats, by what these tell."""
_HELD = Prepared(
    select(
        _ATTEMPTS.c.secret,
        _ATTEMPTS.c.worker,
        _ATTEMPTS.c.state,
        _JOBS.c.spec,
        _JOBS.c.revision,
        _JOBS.c.group_id,
        _JOBS.c.project,
        # A job that measures both sides of a pair stands in two rows of one comparison.
        select(func.min(_OF_COMPARISONS.c.comparison_id))
        .where(_OF_COMPARISONS.c.job_id == _JOBS.c.id)
        .scalar_subquery(),
    )
    .join_from(_ATTEMPTS, _JOBS, _JOBS.c.id == _ATTEMPTS.c.job_id)
    .where(_ATTEMPTS.c.job_id == bindparam("job_id"), _ATTEMPTS.c.number == bindparam("number"))
    .with_for_update(of=(_ATTEMPTS, _JOBS))
)
_OUTCOMES = {
    contracts.Status.OK: (contracts.AttemptState.SUCCEEDED, contracts.JobState.SUCCEEDED),
    contracts.Status.TIMEOUT: (contracts.AttemptState.TIMED_OUT, contracts.JobState.FAILED),
    contracts.Status.CANCELLED: (contracts.AttemptState.CANCELLED, contracts.JobState.CANCELLED),
}
_FAILED = (contracts.AttemptState.FAILED, contracts.JobState.FAILED)


def start(session: Session, holder: Holder, terms: Terms, now: datetime) -> None:
    """Say that the measurement runs; repeating it changes nothing.

    Raises:
        Fenced: the attempt is over.
    """
    until = {"lease_expires_at": now + terms.lease}
    if _start_if_granted(session, holder, now, **until):
        return
    if not transitions.change_attempt(session, holder, contracts.AttemptState.STARTED, **until):
        raise Fenced(transitions.OVER)


def heartbeat(
    on: Runner, holder: Holder, beat: contracts.Heartbeat, terms: Terms, now: datetime
) -> contracts.Renewal:
    """Extend the lease, note what the worker tells, and tell whether the job was cancelled.

    Raises:
        Fenced: the attempt is over.
    """
    said = beat.model_dump(mode="json", exclude_none=True)
    fence = {"of_job": holder.job_id, "of_number": holder.number, "of_secret": holder.secret}
    values = {f"new_{name}": value for name, value in said.items()}
    until = now + terms.lease
    rows = _BEATS[tuple(said)].run(
        on, **fence, **values, any_worker=holder.worker, until=until, **_LIVE
    )
    if not rows:
        raise Fenced(transitions.OVER)
    (worker, cancel), *_ = rows
    transitions.change(on, WorkerRow, {"name": worker}, last_seen_at=now)
    return contracts.Renewal(lease_s=terms.lease.total_seconds(), cancel=cancel)


def complete(on: Runner, holder: Holder, result: contracts.Result, now: datetime) -> Completion:
    """Take a result: end the attempt and the job and count it, all or nothing.

    A result that comes after its attempt ended otherwise is kept and shown, and never counted.

    Raises:
        NotFound: there is no such attempt.
        Fenced: the secret is not this attempt's, or the token is another worker's.
        Conflict: the attempt was completed with another result.
        Invalid: the result is not of this job's case, contradicts itself, or is too large.
    """
    held = _held(on, holder)
    check_result(held.spec, result)
    document = record.canonical(result)
    digest = record.digest_of(document)
    check_size(held.spec, result, document)
    # One that is live has no result yet, and its row is locked.
    known = None if held.state in transitions.LIVE else _result_of(on, holder, digest)
    if known is not None:
        return known
    counted = _end(on, held, holder, result, now)
    if not counted and _has_counted(on, holder):
        raise Conflict("This attempt was completed with another result, which stays.")
    stored = record.record(on, held.origin, result, document, digest, now, counted=counted)
    return Completion(stored, counted, created=True, comparison_id=held.comparison_id)


def _end(on: Runner, held: Held, holder: Holder, result: contracts.Result, now: datetime) -> bool:
    """End attempt and job with a result; say whether the attempt was still live."""
    attempt_state, job_state = _OUTCOMES.get(result.status, _FAILED)
    if held.state == contracts.AttemptState.GRANTED:
        _start_if_granted(on, holder, now)
    ending: dict[str, Any] = {"state": attempt_state, "ended_at": now, "reason": result.reason}
    ending["log_tail"] = None  # the result has it
    if not transitions.change_attempt(on, holder, contracts.AttemptState.STARTED, **ending):
        return False
    done = {"state": job_state, "finished_at": now, "reason": result.reason}
    transitions.require(transitions.change_job(on, holder, contracts.JobState.RUNNING, **done))
    if job_state != contracts.JobState.SUCCEEDED and held.spec.protocol.replicates > 1:
        reason = f"Replicate {held.spec.replicate} {job_state}."
        with session_on(on) as session:
            groups.end(session, held.origin.group_id, reason, now)
    return True


def check_result(spec: contracts.JobSpec, result: contracts.Result) -> None:
    """Refuse a result that is not of this job's case or contradicts itself.

    Raises:
        Invalid: it says in one sentence which.
    """
    case, asked = result.case, spec.case
    if (case.workload, case.axes) != (asked.workload, asked.axes):
        raise Invalid("The result is of another case than the job's; post it to its own job.")
    if asked.preset not in ("auto", case.preset):
        raise Invalid("The result is of another preset than the job's; post it to its own job.")
    if result.status is contracts.Status.OK and case.preset == "auto":
        raise Invalid("The result does not name the preset that was measured, `full` or `tiny`.")
    if len(result.replicates) > 1 and spec.protocol.replicates > 1:
        raise Invalid("The result is of several replicates; each is a job and has its own result.")
    metrics = [sample.metric for sample in result.samples]
    if len(set(metrics)) != len(metrics):
        raise Invalid("The result has two samples of the same metric; give their values in one.")
    for why in _contradictions(spec, result):
        raise Invalid(why)
    check_time("measured_at", result.measured_at)


def _contradictions(spec: contracts.JobSpec, result: contracts.Result) -> Iterator[str]:
    """Yield the sides whose numbers are of other versions than their revision names."""
    sides = [(spec.revision, result)]
    if spec.duet is not None and result.baseline is not None:
        sides.append((spec.duet.baseline, result.baseline))
    for revision, side in sides:
        if side.samples and (why := contradiction(revision, side.environment.facts)):
            yield why


def check_size(spec: contracts.JobSpec, result: contracts.Result, document: bytes) -> None:
    """Refuse a result that is larger than whoever reads it later should pay for.

    Args:
        spec: of the job.
        result: of its process.
        document: the result as JSON.

    Raises:
        Invalid: it says in one sentence how large it is, and what is allowed.
    """
    if too_large := contracts.excess(result, document, spec.protocol.replicates):
        raise Invalid(f"The result is too large. {too_large}")


def taken_from(session: Session, holder: Holder, kind: ArtifactKind) -> str:
    """The result that was taken from an attempt, to which its trace or log is to be added.

    Raises:
        NotFound: there is no such attempt.
        Fenced: it is not the holder's, or nothing was taken from it: it goes on, or came too late.
        Conflict: nobody asked for a trace of what it measured.
    """
    held = _held(session, holder)
    taken = select(ResultRow.id).where(
        ResultRow.job_id == holder.job_id, ResultRow.attempt == holder.number, ResultRow.counted
    )
    result_id = session.execute(taken).scalar()
    if result_id is None:
        raise Fenced(f"No result was taken from this attempt, so none can have a {kind}.")
    if kind is ArtifactKind.TRACE and not held.spec.protocol.trace:
        raise Conflict("Nobody asked for a trace of what this attempt measured.")
    return result_id


def release(session: Session, holder: Holder, reason: str, now: datetime) -> None:
    """Take a job back unharmed from a worker that stops: queued again, nothing counts as lost.

    Raises:
        Fenced: the attempt is over.
    """
    ending = {"state": contracts.AttemptState.REJECTED, "ended_at": now, "reason": reason}
    if not transitions.change_attempt(session, holder, *transitions.LIVE, **ending):
        raise Fenced(transitions.OVER)
    if not transitions.cancel_held(session, holder, now):
        transitions.require(groups.requeue(session, holder, now))


def _start_if_granted(on: Runner, holder: Holder, now: datetime, **more: object) -> bool:
    started = {"state": contracts.AttemptState.STARTED, "started_at": now, **more}
    if not transitions.change_attempt(on, holder, contracts.AttemptState.GRANTED, **started):
        return False
    transitions.require(
        transitions.change_job(
            on, holder, contracts.JobState.LEASED, state=contracts.JobState.RUNNING
        )
    )
    return True


def _held(on: Runner, holder: Holder) -> Held:
    """The attempt and its job, locked, if the secret is right."""
    rows = _HELD.run(on, job_id=holder.job_id, number=holder.number)
    if not rows:
        raise NotFound("There is no such attempt; GET /api/v1/jobs/{id} lists a job's attempts.")
    secret, worker, state, spec, revision, group_id, project, comparison_id = rows[0]
    if not hmac.compare_digest(secret.encode(), holder.secret.encode()):
        raise Fenced(transitions.OVER)
    if holder.worker not in (None, worker):
        raise Fenced(transitions.OVER)
    made = contracts.JobSpec.model_validate(spec)
    origin = Origin(
        job_id=holder.job_id,
        attempt=holder.number,
        worker=worker,
        revision=revision,
        purpose=made.purpose,
        project=project,
        group_id=group_id,
        replicate=made.replicate,
        replicates=made.protocol.replicates,
    )
    return Held(origin, state, made, comparison_id)


def _result_of(on: Runner, holder: Holder, digest: str) -> Completion | None:
    row = on.execute(
        select(ResultRow.id, ResultRow.counted).where(
            ResultRow.job_id == holder.job_id,
            ResultRow.attempt == holder.number,
            ResultRow.digest == digest,
        )
    ).first()
    return None if row is None else Completion(row.id, counted=row.counted, created=False)


def _has_counted(on: Runner, holder: Holder) -> bool:
    counted = select(ResultRow.id).where(
        ResultRow.job_id == holder.job_id, ResultRow.attempt == holder.number, ResultRow.counted
    )
    return on.execute(counted).first() is not None
