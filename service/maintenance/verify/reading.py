"""Reads what is to be checked, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, cast

from sqlalchemy import Column, Row, Select, Table, literal, select, tuple_
from sqlalchemy.orm import Session

from service.maintenance.verify.values import AttemptFacts, Event, JobFacts, ResultFacts
from service.models import Attempt, Job, JobEvent, ResultRow, Submission

BATCH = 200
_JOBS = cast(Table, Job.__table__)
_OF_JOB = tuple(
    field.name
    for field in fields(JobFacts)
    if field.name not in ("submitted", "attempts", "results", "log")
)


def every_job(session: Session) -> Iterator[JobFacts]:
    """Every job with all that belongs to it, the oldest first."""
    submitted = (Submission.project, Submission.revision, Submission.suite)
    query = select(
        *(getattr(Job, name) for name in _OF_JOB),
        *(column.label(f"submitted_{column.key}") for column in submitted),
    ).outerjoin(Submission, Submission.id == Job.submission_id)
    for jobs in pages(session, query, (_JOBS.c.id,)):
        yield from _with_belongings(session, jobs)


def pages(
    session: Session, query: Select[*tuple[Any, ...]], key: Sequence[Column[Any]]
) -> Iterator[Sequence[Row[*tuple[Any, ...]]]]:
    """The rows of ``query``, `BATCH` at a time, in the order of their primary key.

    ``key`` are columns that ``query`` gives under their own names.
    """
    ordered = after = query.order_by(*key).limit(BATCH)
    while rows := session.execute(after).all():
        yield rows
        last = (literal(rows[-1]._mapping[column.name], column.type) for column in key)
        after = ordered.where(tuple_(*key) > tuple_(*last))


def history_of(session: Session, job_id: str) -> list[Event]:
    """The log of one job."""
    return _events(session, [job_id]).get(job_id, [])


def _with_belongings(session: Session, jobs: Sequence[Any]) -> Iterator[JobFacts]:
    ids = [job.id for job in jobs]
    columns = select(
        Attempt.job_id,
        Attempt.number,
        Attempt.worker,
        Attempt.state,
        Attempt.granted_at,
        Attempt.started_at,
        Attempt.ended_at,
        Attempt.reason,
    )
    attempts = _by_job(
        session, columns.where(Attempt.job_id.in_(ids)).order_by(Attempt.job_id, Attempt.number)
    )
    posted = select(
        ResultRow.job_id,
        ResultRow.id,
        ResultRow.attempt,
        ResultRow.worker,
        ResultRow.status,
        ResultRow.counted,
    )
    results = _by_job(
        session,
        posted.where(ResultRow.job_id.in_(ids)).order_by(ResultRow.job_id, ResultRow.id),
    )
    events = _events(session, ids)
    for job in jobs:
        yield JobFacts(
            **{name: job._mapping[name] for name in _OF_JOB},
            submitted=(job.submitted_project, job.submitted_revision, job.submitted_suite),
            attempts=[AttemptFacts(*row) for row in attempts.get(job.id, ())],
            results=[ResultFacts(*row) for row in results.get(job.id, ())],
            log=events.get(job.id, ()),
        )


def _events(session: Session, ids: Sequence[str]) -> dict[str, list[Event]]:
    columns = select(
        JobEvent.job_id,
        JobEvent.attempt,
        JobEvent.from_state,
        JobEvent.to_state,
        JobEvent.at,
        JobEvent.worker,
        JobEvent.reason,
    )
    query = columns.where(JobEvent.job_id.in_(ids)).order_by(JobEvent.job_id, JobEvent.id)
    return {job: [Event(*row) for row in rows] for job, rows in _by_job(session, query).items()}


def _by_job(session: Session, query: Select[*tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    rows_ = session.execute(query)
    return {job: [tuple(row)[1:] for row in rows] for job, rows in groupby(rows_, lambda r: r[0])}
