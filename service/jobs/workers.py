"""Workers that have introduced themselves; tells other programs of those that are lost, or back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Table, func, select
from sqlalchemy.orm import Session

from benchmarks.contracts import FOLDER, Worker, meets
from service.database.session import alone, found, insert_if_absent
from service.jobs import commit_ranges, eligibility, heads
from service.models import EventKind, OutboxEvent, WorkerRow
from service.models.project_filter import revisions_seen
from service.outbox import events
from service.schemas.errors import Conflict, NotFound
from service.schemas.jobs import Drain, IntroducedWorker, WorkerView
from service.wording import formats

_WORKERS = cast(Table, WorkerRow.__table__)
_DEVICES = {"cuda", "cpu"}
LATELY = timedelta(days=1)
"""A worker that lives is seen every few seconds. One that is off at night, or being repaired, may
still take what is queued now; one that has been away for longer says nothing of what will."""

PRESENT = timedelta(minutes=1)
"""A worker that waits for a job, or has one, is heard of at least every half minute."""
SILENCE = timedelta(minutes=15)
"""After which a worker is lost. One that lives is heard of at least every half minute; within this
time it is started again, and its machine too."""


def introduce(session: Session, worker: Worker, now: datetime) -> IntroducedWorker:
    """Note a worker and its labels, or note what is new about it; ask it for a range of commits.

    Its name is a label as well, so that a job may require this very worker.

    Raises:
        Conflict: a worker of this name works from another folder: what both measured would be one
            history, and jobs for the one would go to the other.
    """
    labels = worker.labels | {"worker": worker.name}
    has = None if worker.revisions is None else list(worker.revisions)
    eligibility.lock_pairs(session)
    values: dict[str, Any] = {
        "labels": labels,
        "version": worker.version,
        "revisions": has,
        "last_seen_at": now,
    }
    values |= {"gpu_uuid": labels.get("gpu_uuid"), "warnings": list(worker.warnings)}
    values |= {"targets": worker.targets, "heads_told_at": now}
    values |= {"heads": heads.kept(worker, (), now)}
    # Two introductions may meet: one that was sent twice, or one to each replica.
    new = insert_if_absent(session, _WORKERS, {"name": worker.name, "first_seen_at": now, **values})
    row = session.get_one(WorkerRow, worker.name, with_for_update=True)
    if row.last_seen_at > now - PRESENT and _is_another(row.labels, labels):
        host = row.labels.get("host")
        raise Conflict(
            f"Another worker named {worker.name} works{f' on {host}' if host else ''}, last heard "
            f"of at {row.last_seen_at:%H:%M:%S} UTC: give this one another name, or stop that one "
            f"and wait {PRESENT.seconds} s."
        )
    changed = new or row.labels != labels
    row.labels, row.version, row.revisions, row.last_seen_at = labels, worker.version, has, now
    row.gpu_uuid, row.warnings = labels.get("gpu_uuid"), list(worker.warnings)
    row.targets, row.heads_told_at = worker.targets, now
    row.heads = heads.kept(worker, row.heads or (), now)
    session.flush()
    if changed:
        eligibility.set_worker(session, row)
    if worker.listed is not None:
        commit_ranges.keep(session, worker.listed, now)
    asked = commit_ranges.asked_of(session, row)
    return IntroducedWorker(**dict(_view(session, row)), list_range=asked)


def _is_another(known: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    folders = known.get(FOLDER), labels.get(FOLDER)
    return None not in folders and folders[0] != folders[1]


def drain(session: Session, name: str, reason: str, actor: str, now: datetime) -> WorkerView:
    """Give a worker no further job, until it is resumed; it finishes what it has.

    A job that was given just now, in a claim that this waits for, is what it has.

    Raises:
        NotFound: there is no such worker.
        Conflict: it is drained already.
    """
    row = _locked(session, name)
    if row.drained_at is not None:
        raise Conflict(f"This worker is drained already, by {row.drained_by}; DELETE resumes it.")
    row.drained_at, row.drained_by, row.drain_reason = now, actor, reason
    return _given_jobs(session, row)


def resume(session: Session, name: str) -> WorkerView:
    """Give a drained worker jobs again.

    Raises:
        NotFound: there is no such worker, or it is not drained.
    """
    row = _locked(session, name)
    if row.drained_at is None:
        raise NotFound("This worker is not drained.")
    row.drained_at = row.drained_by = row.drain_reason = None
    return _given_jobs(session, row)


def _locked(session: Session, name: str) -> WorkerRow:
    eligibility.lock_pairs(session)
    return found(session, WorkerRow, name, with_for_update=True)


def _given_jobs(session: Session, row: WorkerRow) -> WorkerView:
    session.flush()
    eligibility.set_worker(session, row)
    return _view(session, row)


def drain_of(row: WorkerRow) -> Drain | None:
    """Who drained a worker, when and why; None if nobody did."""
    if row.drained_at is None:
        return None
    return Drain(actor=row.drained_by or "", reason=row.drain_reason or "", at=row.drained_at)


def every(session: Session) -> list[WorkerView]:
    """All workers, the last seen first."""
    order = (WorkerRow.last_seen_at.desc(), WorkerRow.name)
    return [_view(session, row) for row in session.scalars(select(WorkerRow).order_by(*order))]


def common_device(session: Session, requires: Mapping[str, str], now: datetime) -> str | None:
    """``cuda`` or ``cpu`` if all workers that ``requires`` allows are of it, else None.

    Workers that were not seen `LATELY` do not count.
    """
    present = select(WorkerRow.labels).where(WorkerRow.last_seen_at > now - LATELY)
    known = session.scalars(present)
    devices = {labels.get("device") for labels in known if meets(labels, requires)}
    return next(iter(devices)) if len(devices) == 1 and devices <= _DEVICES else None


def _view(session: Session, row: WorkerRow) -> WorkerView:
    has = row.revisions
    seen = None if has is None else revisions_seen(session, has)
    return WorkerView.of(
        row,
        revisions=seen,
        warnings=row.warnings or [],
        targets=row.targets or {},
        drain=drain_of(row),
    )


def watch_presence(session: Session, now: datetime, *, heard: bool = True) -> None:
    """Write an event for each worker that was seen within a day and is silent, or is back.

    Each is told once; one that is drained may be off. While this service could not hear workers for
    long enough (not ``heard``), none is lost.
    """
    alone(session, "presence")
    lost = _told_as_lost(session)
    for row in session.scalars(select(WorkerRow).where(WorkerRow.last_seen_at > now - LATELY)):
        silent = row.last_seen_at < now - SILENCE
        if silent and heard and row.drained_at is None and row.name not in lost:
            _tell(session, EventKind.WORKER_LOST, row, "was last heard of", now)
        elif not silent and row.name in lost:
            _tell(session, EventKind.WORKER_BACK, row, "is heard of again, last", now)


def _told_as_lost(session: Session) -> set[str]:
    """Names of the workers of which it was last told that they are lost."""
    kinds = EventKind.WORKER_LOST, EventKind.WORKER_BACK
    newest = (
        select(func.max(OutboxEvent.id))
        .where(OutboxEvent.kind.in_(kinds))
        .group_by(OutboxEvent.subject)
    )
    told = OutboxEvent.id.in_(newest), OutboxEvent.kind == EventKind.WORKER_LOST
    return set(session.scalars(select(OutboxEvent.subject).where(*told)))


def _tell(session: Session, kind: EventKind, row: WorkerRow, what: str, now: datetime) -> None:
    at = formats.moment(row.last_seen_at)
    device = row.labels.get("gpu", row.labels.get("device", ""))
    sentence = f"Worker {row.name}{device and f' ({device})'} {what} at {at}."
    headline = f"Worker {row.name} {what} {formats.ago(row.last_seen_at, now)}"
    events.write(session, events.News(kind, headline, sentence, row.name), now)
