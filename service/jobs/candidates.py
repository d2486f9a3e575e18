"""Chooses the job that a worker gets next."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import ColumnElement, Table, and_, bindparam, exists, or_, select
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobState
from service.jobs import eligibility
from service.jobs.transitions import LIVE
from service.models import Attempt, Job, WorkerRow

_QUEUED = Job.state == JobState.QUEUED
_ORDER = (Job.rank, Job.id)
_LET_GO = (AttemptState.LOST, AttemptState.REJECTED)
_WORKERS, _ATTEMPTS = cast(Table, WorkerRow.__table__), cast(Table, Attempt.__table__)
# Of tables, and made once: to build a statement takes several times as long as to run it.
_GPU = select(_WORKERS.c.gpu_uuid).where(_WORKERS.c.name == bindparam("worker"))
_BESIDE = (
    select(_WORKERS.c.name)
    .where(_WORKERS.c.gpu_uuid == bindparam("uuid"))
    .order_by(_WORKERS.c.name)
    .with_for_update()
)
_HELD_BY = (
    select(_ATTEMPTS.c.job_id)
    .where(_ATTEMPTS.c.worker.in_(bindparam("names", expanding=True)))
    .where(_ATTEMPTS.c.state.in_(LIVE))
    .limit(1)
)


def choose(session: Session, worker: str, lease: timedelta, now: datetime) -> Job | None:
    """The queued job that ``worker`` should do next, locked; None if there is none.

    A job that this worker lost or gave back waits one lease for another worker, if one that could
    do it has been seen lately.
    """
    long_ago = now - lease
    for requires in eligibility.waiting(session, worker, correct=True):
        wanted = (_open_to(worker), Job.requires == requires)
        job = _first(session, *wanted, _welcome(worker, long_ago))
        if job is None and not eligibility.other_meets(session, requires, worker, long_ago):
            job = _first(session, *wanted)
        if job is not None:
            return job
    return None


def has_work(session: Session, worker: str) -> bool:
    """Return True if ``worker`` meets the labels of any queued job; take no lock."""
    return next(eligibility.waiting(session, worker, correct=False), None) is not None


def device_is_taken(session: Session, worker: str) -> bool:
    """Return True if a live attempt of any worker holds the GPU of ``worker``.

    Two workers on one GPU, or one that came back under another name, would measure each other.
    Their rows stay locked, so that two of them cannot both find the GPU free at once.
    """
    uuid = session.execute(_GPU, {"worker": worker}).scalar()
    if uuid is None:
        return False
    names = session.execute(_BESIDE, {"uuid": uuid}).scalars().all()
    return session.execute(_HELD_BY, {"names": names}).first() is not None


def _open_to(worker: str) -> ColumnElement[bool]:
    return and_(_QUEUED, or_(Job.kept_for.is_(None), Job.kept_for == worker))


def _first(session: Session, *wanted: ColumnElement[bool]) -> Job | None:
    first = select(Job).where(*wanted).order_by(*_ORDER).limit(1)
    # Others skip the row until this transaction ends; SQLite has one writer and needs no lock.
    locked = first.with_for_update(skip_locked=True).execution_options(populate_existing=True)
    return session.scalars(locked).first()


def _welcome(worker: str, long_ago: datetime) -> ColumnElement[bool]:
    let_go = exists().where(
        Attempt.job_id == Job.id, Attempt.worker == worker, Attempt.state.in_(_LET_GO)
    )
    return or_(Job.attempt == 0, Job.queued_at <= long_ago, ~let_go)
