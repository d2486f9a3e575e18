"""Workers that have introduced themselves."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Worker
from service.models import WorkerRow


class WorkerView(BaseModel):
    """A worker, and when it was last heard of."""

    name: str
    labels: dict[str, str]
    version: str
    first_seen_at: datetime
    last_seen_at: datetime


def introduce(session: Session, worker: Worker, now: datetime) -> WorkerView:
    """Note a worker and its labels, or note what is new about it.

    Its name is a label as well, so that a job may require this very worker.
    """
    row = session.get(WorkerRow, worker.name)
    if row is None:
        row = WorkerRow(name=worker.name, first_seen_at=now)
        session.add(row)
    row.labels = worker.labels | {"worker": worker.name}
    row.version, row.last_seen_at = worker.version, now
    session.flush()
    return _view(row)


def every(session: Session) -> list[WorkerView]:
    """All workers, the last seen first."""
    order = (WorkerRow.last_seen_at.desc(), WorkerRow.name)
    return [_view(row) for row in session.scalars(select(WorkerRow).order_by(*order))]


def _view(row: WorkerRow) -> WorkerView:
    return WorkerView(
        name=row.name,
        labels=row.labels,
        version=row.version,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
    )
