"""Checks several rows together: devices, schedules, and submissions that were stored in part."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import func, or_, select, union_all
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState
from service.database.session import now_of
from service.history import revisions
from service.maintenance.verify.reading import history_of
from service.maintenance.verify.values import Breach
from service.models import Attempt, ComparisonRow, Job, ScheduleRun, Submission, WorkerRow


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
    """9: a submission has its jobs, at the places 0, 1, 2 ...

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
    placed = select(Job.submission_id, func.count(), last).group_by(Job.submission_id)
    distinct = func.count(Job.position.distinct())
    gaps = placed.having(or_(func.count() != last + 1, distinct != func.count()))
    sides_ = select(Submission.id).where(Submission.source.startswith(revisions.COMPARISON))
    gaps = gaps.where(Job.submission_id.not_in(sides_))
    for name, count, highest in session.execute(gaps.limit(100)):
        sentence = f"It has {count} jobs, and one at place {highest}: a part of it is gone."
        yield Breach(9, f"submission {name}", sentence)
