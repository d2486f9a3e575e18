"""Chooses the job that a worker gets next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import ColumnElement, Table, and_, bindparam, exists, or_, select
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobState
from service.models import Attempt, Job, Requirement, WorkerRow
from service.queue.swap import LIVE

_QUEUED = Job.state == JobState.QUEUED
_ORDER = (Job.rank, Job.place)
_LET_GO = (AttemptState.LOST, AttemptState.REJECTED)
_WORKERS, _ATTEMPTS = cast(Table, WorkerRow.__table__), cast(Table, Attempt.__table__)
# Of tables, and made once: to build a statement takes several times as long as to run it.
_LABELS = select(_WORKERS.c.labels).where(_WORKERS.c.name == bindparam("worker"))
_BESIDE = (
    select(_WORKERS.c.name)
    .where(_WORKERS.c.labels["gpu_uuid"].as_string() == bindparam("uuid"))
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
    labels = _labels_of(session, worker)
    for digest, required in _sets_with_work(session, worker, labels):
        wanted = (_open_to(worker), Job.requires == digest)
        job = _first(session, *wanted, _welcome(worker, now - lease))
        if job is None and not _others(session, worker, required, now - lease):
            job = _first(session, *wanted)
        if job is not None:
            return job
    return None


def has_work(session: Session, worker: str) -> bool:
    """Whether any queued job wants labels that ``worker`` has; takes no lock."""
    return bool(_sets_with_work(session, worker, _labels_of(session, worker)))


def device_is_taken(session: Session, worker: str) -> bool:
    """Whether an attempt that is not over holds the GPU of ``worker``, whoever its worker is.

    Two workers on one GPU, or one that came back under another name, would measure each other.
    Their rows stay locked, so that two of them cannot both be told no at once.
    """
    uuid = _labels_of(session, worker).get("gpu_uuid")
    if uuid is None:
        return False
    names = session.execute(_BESIDE, {"uuid": uuid}).scalars().all()
    return session.execute(_HELD_BY, {"names": names}).first() is not None


def _labels_of(session: Session, worker: str) -> Mapping[str, str]:
    return session.execute(_LABELS, {"worker": worker}).scalar() or {}


def _open_to(worker: str) -> ColumnElement[bool]:
    """Queued, and not kept for another worker."""
    return and_(_QUEUED, or_(Job.kept_for.is_(None), Job.kept_for == worker))


def _sets_with_work(
    session: Session, worker: str, labels: Mapping[str, str]
) -> list[tuple[str, Mapping[str, str]]]:
    """The requirement sets that ``labels`` meet and that have jobs, the most urgent job's first."""
    queued = exists().where(_open_to(worker), Job.requires == Requirement.digest)
    sets = session.execute(select(Requirement.digest, Requirement.labels).where(queued)).all()
    heads = []
    for digest, required in sets:
        if required.items() <= labels.items():
            first = select(*_ORDER).where(_open_to(worker), Job.requires == digest)
            head = session.execute(first.order_by(*_ORDER).limit(1)).first()
            if head is not None:
                heads.append((tuple(head), digest, required))
    heads.sort(key=lambda each: each[0])
    return [(digest, required) for _, digest, required in heads]


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


def _others(session: Session, worker: str, required: Mapping[str, str], since: datetime) -> bool:
    seen = select(WorkerRow.labels).where(WorkerRow.name != worker, WorkerRow.last_seen_at > since)
    return any(required.items() <= labels.items() for labels in session.scalars(seen))
