"""Chooses the job that a worker gets next."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from sqlalchemy import Select, Table, bindparam, exists, or_, select

from benchmarks.contracts import AttemptState, JobState
from service.database.prepared import Prepared, Runner
from service.jobs import eligibility
from service.jobs.transitions import LIVE
from service.models import Attempt, Job, WorkerRow

_WORKERS, _ATTEMPTS = cast(Table, WorkerRow.__table__), cast(Table, Attempt.__table__)
_JOBS = cast(Table, Job.__table__)


def _beside(worker: Table) -> Select[tuple[str]]:
    """Select the workers on the GPU of the worker that asks; none where its GPU is not known."""
    asking = _WORKERS.alias("asking")
    uuid = select(asking.c.gpu_uuid).where(asking.c.name == bindparam("worker")).scalar_subquery()
    return select(worker.c.name).where(worker.c.gpu_uuid == uuid)


_LOCK_BESIDE = Prepared(_beside(_WORKERS).order_by(_WORKERS.c.name).with_for_update())
_HELD_BESIDE = Prepared(
    select(_ATTEMPTS.c.job_id)
    .where(_ATTEMPTS.c.worker.in_(_beside(_WORKERS)))
    .where(or_(*(_ATTEMPTS.c.state == state for state in LIVE)))
    .limit(1)
)
_LET_GO = exists().where(
    _ATTEMPTS.c.job_id == _JOBS.c.id,
    _ATTEMPTS.c.worker == bindparam("worker"),
    or_(*(_ATTEMPTS.c.state == state for state in (AttemptState.LOST, AttemptState.REJECTED))),
)
_FIRST = (
    select(_JOBS.c.id, _JOBS.c.group_id, _JOBS.c.attempt, _JOBS.c.kept_for, _JOBS.c.spec)
    .where(_JOBS.c.state == JobState.QUEUED, _JOBS.c.requires == bindparam("requires"))
    .where(or_(_JOBS.c.kept_for.is_(None), _JOBS.c.kept_for == bindparam("worker")))
    .order_by(_JOBS.c.rank, _JOBS.c.id)
    .limit(1)
    # Others skip the row until this transaction ends; SQLite has one writer and needs no lock.
    .with_for_update(skip_locked=True)
)
_ANY = Prepared(_FIRST)
_WELCOME = Prepared(
    _FIRST.where(or_(_JOBS.c.attempt == 0, _JOBS.c.queued_at <= bindparam("long_ago"), ~_LET_GO))
)


class NextJob(NamedTuple):
    """A queued job that is locked for the worker that asks."""

    id: str
    group_id: str
    attempt: int
    """Number of its latest attempt; 0 before the first."""
    kept_for: str | None
    spec: dict[str, Any]


def choose(on: Runner, worker: str, lease: timedelta, now: datetime) -> NextJob | None:
    """The queued job that ``worker`` should do next, locked; None if there is none.

    A job that this worker lost or gave back waits one lease for another worker, if one that could
    do it has been seen lately.
    """
    long_ago = now - lease
    for requires in eligibility.waiting(on, worker, correct=True):
        rows = _WELCOME.run(on, worker=worker, requires=requires, long_ago=long_ago)
        if not rows and not eligibility.other_meets(on, requires, worker, long_ago):
            rows = _ANY.run(on, worker=worker, requires=requires)
        if rows:
            return NextJob(*rows[0])
    return None


def has_work(on: Runner, worker: str) -> bool:
    """Return True if ``worker`` meets the labels of any queued job; take no lock."""
    return next(eligibility.waiting(on, worker, correct=False), None) is not None


def device_is_taken(on: Runner, worker: str) -> bool:
    """Return True if a live attempt of any worker holds the GPU of ``worker``.

    Two workers on one GPU, or one that came back under another name, would measure each other.
    Their rows stay locked, so that two of them cannot both find the GPU free at once.
    """
    if not _LOCK_BESIDE.run(on, worker=worker):
        return False
    return bool(_HELD_BESIDE.run(on, worker=worker))
