"""Checks several rows together: devices, labels, groups, schedules, traces, missing parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from sqlalchemy import and_, func, or_, select, union_all
from sqlalchemy.orm import Session, aliased

from benchmarks.contracts import AttemptState
from service.database.session import now_of
from service.history import revisions
from service.jobs import eligibility
from service.maintenance.verify.agreement import ROWS
from service.maintenance.verify.reading import history_of
from service.maintenance.verify.values import Breach
from service.models import (
    Attempt,
    ComparisonRow,
    Eligibility,
    Job,
    LabelSet,
    ScheduleRun,
    Submission,
    TraceRow,
    WorkerRow,
)


def one_job_per_device(session: Session) -> Iterator[Breach]:
    """5: no two running attempts, with leases that have not expired, on one GPU."""
    device = WorkerRow.labels["gpu_uuid"].as_string()
    running = (
        select(device.label("device"), Attempt.job_id, Attempt.number)
        .join(WorkerRow, WorkerRow.name == Attempt.worker)
        .where(Attempt.state == AttemptState.STARTED, Attempt.lease_expires_at > now_of(session))
        .where(device.is_not(None))
        .order_by(device, Attempt.granted_at)
    )
    before: str | None = None
    for row in session.execute(running):
        if row.device == before:
            sentence = f"Attempt {row.number} runs on GPU {row.device} beside another attempt."
            log = history_of(session, row.job_id)
            yield Breach(5, f"job {row.job_id}", sentence, log)
        before = row.device


def groups_of_jobs(session: Session) -> Iterator[Breach]:
    """11: the jobs of a group are the replicates of one case, each once, kept for who began it."""
    first = aliased(Job)
    same = (first.submission_id == Job.submission_id, first.position == Job.position)
    strange = (
        select(Job.id, Job.group_id)
        .outerjoin(first, and_(first.id == Job.group_id, first.case_key == Job.case_key, *same))
        .where(first.id.is_(None))
    )
    for job_id, group_id in session.execute(strange.limit(100)):
        yield Breach(ROWS, f"job {job_id}", f"The first of its group is {group_id}, another case.")
    replicates = func.min(Job.spec["protocol"]["replicates"].as_integer())
    counts = (func.count(), func.count(Job.replicate.distinct()), func.max(Job.replicate))
    sizes = select(Job.group_id, replicates, *counts).group_by(Job.group_id)
    partial = sizes.having(or_(*(count != replicates for count in counts)))
    for group_id, due, count, _, _ in session.execute(partial.limit(100)):
        sentence = f"Its group has {count} jobs for {due} replicates, or one twice."
        yield Breach(ROWS, f"job {group_id}", sentence)
    begun = select(Attempt.job_id).join(first, first.id == Attempt.job_id)
    begun = begun.where(first.group_id == Job.group_id, Attempt.worker == Job.kept_for)
    kept = select(Job.id, Job.kept_for).where(Job.kept_for.is_not(None), ~begun.exists())
    for job_id, worker in session.execute(kept.limit(100)):
        sentence = f"It is kept for {worker}, who never held a job of its group."
        yield Breach(ROWS, f"job {job_id}", sentence)


def slots_fire_once(session: Session) -> Iterator[Breach]:
    """8: a slot fires at most once, not before its time, and is what submitted."""
    same = (ScheduleRun.schedule, ScheduleRun.due_at)
    again = select(*same).group_by(*same).having(func.count() > 1)
    for name, due_at in session.execute(again):
        yield Breach(8, f"schedule {name}", f"Its slot of {due_at} fired twice.")
    made = select(ScheduleRun.submission_id).where(ScheduleRun.submission_id.is_not(None))
    for submission in session.scalars(
        made.group_by(ScheduleRun.submission_id).having(func.count() > 1)
    ):
        yield Breach(8, f"submission {submission}", "Two slots claim to have made it.")
    early = select(*same, ScheduleRun.fired_at).where(ScheduleRun.fired_at < ScheduleRun.due_at)
    for name, due_at, fired_at in session.execute(early):
        yield Breach(8, f"schedule {name}", f"Its slot of {due_at} fired before, at {fired_at}.")
    foreign = (
        select(*same, Submission.source)
        .join(Submission, Submission.id == ScheduleRun.submission_id)
        .where(Submission.source != func.substr("schedule:" + ScheduleRun.schedule, 1, 64))
    )
    for name, due_at, source in session.execute(foreign):
        sentence = f"Its slot of {due_at} names a submission of {source}."
        yield Breach(8, f"schedule {name}", sentence)
    yield from _slots_and_submissions(session)


def _slots_and_submissions(session: Session) -> Iterator[Breach]:
    """8: a slot and what it submitted are of one moment, and name each other."""
    made = ScheduleRun.submission_id == Submission.id
    late = select(ScheduleRun.schedule, ScheduleRun.due_at).join(Submission, made)
    late = late.where(ScheduleRun.fired_at != Submission.created_at)
    for name, due_at in session.execute(late.limit(100)):
        yield Breach(8, f"schedule {name}", f"Its slot of {due_at} fired at another time.")
    source = func.substr("schedule:" + ScheduleRun.schedule, 1, 64)
    then = (Submission.source == source) & (Submission.created_at == ScheduleRun.fired_at)
    lost = select(ScheduleRun.schedule, ScheduleRun.due_at).join(Submission, then)
    for name, due_at in session.execute(lost.where(ScheduleRun.submission_id.is_(None)).limit(100)):
        yield Breach(8, f"schedule {name}", f"Its slot of {due_at} has lost what it submitted.")


def nothing_is_half_there(session: Session) -> Iterator[Breach]:
    """9: a submission has its cases, at the places 0, 1, 2 ...

    Those of a comparison's two sides are stored before its first round, and stay empty if it makes
    none: no worker came while its budget lasted, or it was cancelled before.
    """
    jobs = select(Job.id).where(Job.submission_id == Submission.id)
    sides = (ComparisonRow.baseline_submission, ComparisonRow.contender_submission)
    to_come = union_all(*(select(side).where(ComparisonRow.rounds == 0) for side in sides))
    empty = select(Submission.id).where(~jobs.exists(), Submission.id.not_in(to_come))
    for row in session.execute(empty.limit(100)):
        yield Breach(9, f"submission {row.id}", "It has no job: only a part of it was stored.")
    last = func.max(Job.position)
    cases = func.count(Job.position.distinct())
    placed = select(Job.submission_id, cases, last).group_by(Job.submission_id)
    gaps = placed.having(cases != last + 1)
    sides_ = select(Submission.id).where(Submission.source.startswith(revisions.COMPARISON))
    gaps = gaps.where(Job.submission_id.not_in(sides_))
    for name, count, highest in session.execute(gaps.limit(100)):
        sentence = f"It has {count} cases, and one at place {highest}: a part of it is gone."
        yield Breach(9, f"submission {name}", sentence)


def eligible_workers(session: Session) -> Iterator[Breach]:
    """11: a worker has a row for each label set that it meets, and no row hides a job from it."""
    sets = session.execute(select(LabelSet.digest, LabelSet.labels)).all()
    for worker, labels in session.execute(select(WorkerRow.name, WorkerRow.labels)).all():
        rows = eligibility.sets_of(session, worker)
        has = {row.requires for row in rows}
        met = {name for name, required in sets if eligibility.meets(labels, required)}
        for name in sorted(met - has):
            yield Breach(ROWS, f"eligibilities {name}", f"Worker {worker} meets it and has no row.")
        for name in sorted(has - met):
            yield Breach(ROWS, f"eligibilities {name}", f"Worker {worker} does not meet it.")
        for row in rows:
            if eligibility.hides(row):
                sentence = f"It hides job {row.head} from worker {worker}."
                yield Breach(ROWS, f"eligibilities {row.requires}", sentence)
    known = select(WorkerRow.name).where(WorkerRow.name == Eligibility.worker).exists()
    for name, worker in session.execute(
        select(Eligibility.requires, Eligibility.worker).where(~known)
    ):
        yield Breach(ROWS, f"eligibilities {name}", f"There is no worker {worker}.")


def devices_of_workers(session: Session) -> Iterator[Breach]:
    """11: the GPU by which a claim knows a worker is the one that the worker's labels name."""
    columns = (WorkerRow.name, WorkerRow.labels, WorkerRow.gpu_uuid)
    for name, labels, gpu_uuid in session.execute(select(*columns)):
        if labels.get("gpu_uuid") != gpu_uuid:
            yield Breach(ROWS, f"workers {name}", f"Its GPU is {gpu_uuid}, unlike in its labels.")


def every_trace(session: Session) -> Iterator[Breach]:
    """Yield a breach for each trace that differs from its row; one trace at a time is in memory."""
    names = select(TraceRow.result_id, TraceRow.digest, TraceRow.size_b)
    for result_id, digest, size_b in session.execute(names.order_by(TraceRow.result_id)).all():
        body = session.scalars(select(TraceRow.body).where(TraceRow.result_id == result_id)).one()
        if hashlib.sha256(body).hexdigest() != digest or len(body) != size_b:
            subject = f"the trace of result {result_id}"
            yield Breach(2, subject, "It is not what was answered for: digest or size differs.")
