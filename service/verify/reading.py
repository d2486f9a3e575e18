"""Reads what is to be checked, a few jobs at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from service.models import Attempt, Job, JobEvent, ResultRow
from service.verify.values import AttemptFacts, Event, JobFacts, ResultFacts

BATCH = 200


def every_job(session: Session) -> Iterator[JobFacts]:
    """Every job with all that belongs to it, the oldest first."""
    last = ""
    fields = (Job.id, Job.state, Job.attempt, Job.finished_at)
    while True:
        wanted = select(*fields).where(Job.id > last).order_by(Job.id).limit(BATCH)
        jobs = session.execute(wanted).all()
        if not jobs:
            return
        last = jobs[-1].id
        yield from _with_belongings(session, jobs)


def history_of(session: Session, job_id: str) -> list[Event]:
    """The log of one job."""
    return _events(session, [job_id]).get(job_id, [])


def _with_belongings(session: Session, jobs: Sequence[Any]) -> Iterator[JobFacts]:
    ids = [job.id for job in jobs]
    held = select(Attempt.job_id, Attempt.number, Attempt.worker, Attempt.state)
    attempts = _by_job(
        session, held.where(Attempt.job_id.in_(ids)).order_by(Attempt.job_id, Attempt.number)
    )
    posted = select(
        ResultRow.job_id,
        ResultRow.id,
        ResultRow.attempt,
        ResultRow.worker,
        ResultRow.status,
        ResultRow.counted,
        ResultRow.turn,
    )
    results = _by_job(
        session, posted.where(ResultRow.job_id.in_(ids)).order_by(ResultRow.job_id, ResultRow.id)
    )
    events = _events(session, ids)
    for job in jobs:
        yield JobFacts(
            id=job.id,
            state=job.state,
            attempt=job.attempt,
            finished=job.finished_at is not None,
            attempts=[AttemptFacts(*row) for row in attempts.get(job.id, ())],
            results=[ResultFacts(*row) for row in results.get(job.id, ())],
            log=events.get(job.id, ()),
        )


def _events(session: Session, ids: Sequence[str]) -> dict[str, list[Event]]:
    told = select(
        JobEvent.job_id,
        JobEvent.attempt,
        JobEvent.from_state,
        JobEvent.to_state,
        JobEvent.at,
        JobEvent.worker,
        JobEvent.reason,
    )
    wanted = told.where(JobEvent.job_id.in_(ids)).order_by(JobEvent.job_id, JobEvent.id)
    return {job: [Event(*row) for row in rows] for job, rows in _by_job(session, wanted).items()}


def _by_job(session: Session, wanted: Select[*tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each job without its id, which is their first column."""
    found = session.execute(wanted)
    return {job: [tuple(row)[1:] for row in rows] for job, rows in groupby(found, lambda r: r[0])}
