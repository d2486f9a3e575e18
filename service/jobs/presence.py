"""Tells other programs of workers that are not heard of any more, and of those that are back."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.database.session import alone
from service.jobs.workers import LATELY
from service.models import EventKind, OutboxEvent, WorkerRow
from service.outbox import events
from service.wording import formats

SILENCE = timedelta(minutes=15)
"""After which a worker is lost. One that lives is heard of at least every half minute; within this
time it is started again, and its machine too."""


def watch(session: Session, now: datetime, *, heard: bool = True) -> None:
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
