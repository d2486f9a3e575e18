"""Many jobs at once: the first of each kind by the queue itself, the others as its copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import JobSpec
from service.database.session import new_id, now_of
from service.history import revisions
from service.jobs import leases
from service.models import Job, Submission

Row = dict[str, Any]


def submit(session: Session, specs: Sequence[JobSpec]) -> list[Row]:
    """Queue one job of each spec, of revision ``r``, and give their rows in that order."""
    now = now_of(session)
    revisions.register(session, "r", None, now)
    session.add(Submission(id="s", suite=None, revision="r", source="api", created_at=now))
    session.flush()
    made = leases.submit(session, specs, "s", now)
    stored = select(Job.__table__).where(Job.id.in_(made))
    by_id = {row["id"]: dict(row) for row in session.execute(stored).mappings()}
    return [by_id[job_id] for job_id in made]


def copies(rows: Sequence[Row], now: datetime, numbers: Iterable[int]) -> list[Row]:
    """A further job for each number, of the rows' kinds in turn."""
    made = []
    for number in numbers:
        name = new_id(now, number % 65_536)
        made.append(rows[number % len(rows)] | {"id": name, "group_id": name, "position": number})
    return made
