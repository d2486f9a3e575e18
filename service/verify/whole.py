"""What must be true of the database as a whole: devices, schedules, requests that left a half."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import func, select, text, union_all
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState
from service.models import (
    Attempt,
    ComparisonRow,
    Job,
    JobEvent,
    ResultRow,
    Slot,
    Submission,
    WorkerRow,
)
from service.verify.reading import history_of
from service.verify.values import Breach


def one_job_per_device(session: Session, now: datetime) -> Iterator[Breach]:
    """5: no two running attempts, with leases that have not expired, on one GPU."""
    device = WorkerRow.labels["gpu_uuid"].as_string()
    running = (
        select(device.label("device"), Attempt.job_id, Attempt.number)
        .join(WorkerRow, WorkerRow.name == Attempt.worker)
        .where(Attempt.state == AttemptState.STARTED, Attempt.lease_expires_at > now)
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
    same = (Slot.schedule, Slot.due_at)
    again = select(*same).group_by(*same).having(func.count() > 1)
    for name, due_at in session.execute(again):
        yield Breach(8, f"schedule {name}", f"Its slot of {due_at} fired twice.")
    made = select(Slot.submission_id).where(Slot.submission_id.is_not(None))
    for submission in session.scalars(made.group_by(Slot.submission_id).having(func.count() > 1)):
        yield Breach(8, f"submission {submission}", "Two slots claim to have made it.")
    early = select(*same, Slot.fired_at).where(Slot.fired_at < Slot.due_at)
    for name, due_at, fired_at in session.execute(early):
        yield Breach(8, f"schedule {name}", f"Its slot of {due_at} fired before, at {fired_at}.")
    foreign = (
        select(*same, Submission.source)
        .join(Submission, Submission.id == Slot.submission_id)
        .where(Submission.source != func.substr("schedule:" + Slot.schedule, 1, 64))
    )
    for name, due_at, source in session.execute(foreign):
        sentence = f"Its slot of {due_at} names a submission of {source}."
        yield Breach(8, f"schedule {name}", sentence)


def nothing_is_half_there(session: Session) -> Iterator[Breach]:
    """9: a submission has jobs; an attempt, a result, a line of the log has its job.

    Those of a comparison's two sides are stored before its first round, and stay empty if it makes
    none: no worker came while its budget lasted, or it was cancelled before.
    """
    jobs = select(Job.id).where(Job.submission_id == Submission.id)
    sides = (ComparisonRow.baseline_submission, ComparisonRow.contender_submission)
    to_come = union_all(*(select(side).where(ComparisonRow.rounds == 0) for side in sides))
    empty = select(Submission.id).where(~jobs.exists(), Submission.id.not_in(to_come))
    for row in session.execute(empty.limit(100)):
        yield Breach(9, f"submission {row.id}", "It has no job: only a part of it was stored.")
    for table in (Attempt, ResultRow, JobEvent):
        lost = select(func.count()).select_from(table)
        lost = lost.outerjoin(Job, Job.id == table.job_id).where(Job.id.is_(None))
        count = session.execute(lost).scalar_one()
        if count:
            yield Breach(9, table.__tablename__, f"{count} of its rows have no job.")


def missing_guards(session: Session) -> list[str]:
    """Tables whose guarding triggers are not all there, as after a table was rebuilt by hand."""
    if session.get_bind().dialect.name == "sqlite":
        wanted = {
            "jobs": 5,
            "attempts": 5,
            "results": 2,
            "job_events": 2,
            "audit_events": 2,
            "traces": 1,
        }
        found = text(
            "SELECT tbl_name, count(*) FROM sqlite_master "
            "WHERE type = 'trigger' AND name LIKE 'guard_%' GROUP BY tbl_name"
        )
    else:
        wanted = {
            "jobs": 6,
            "attempts": 6,
            "results": 3,
            "job_events": 3,
            "audit_events": 3,
            "traces": 1,
        }
        found = text(
            "SELECT tgrelid::regclass::text, count(*) FROM pg_trigger "
            "WHERE starts_with(tgname, 'guard_') AND tgenabled <> 'D' GROUP BY tgrelid"
        )
    there = {name: count for name, count in session.execute(found)}  # noqa: C416
    return [table for table, count in wanted.items() if there.get(table, 0) < count]
