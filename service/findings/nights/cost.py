"""The cost of a night: time of devices from attempts, energy from results that carry it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta

from pydantic import BaseModel
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from service.database.paging import batched
from service.database.session import new_id
from service.history.queries import BATCH
from service.models import Attempt, Job, ResultRow, WorkerRow
from service.schemas.nights import Cost

_NOT_HERE = timedelta()


class _Meter(BaseModel):
    energy_j: float | None = None


class _Process(BaseModel):
    telemetry: dict[str, _Meter] = {}


class _Metered(BaseModel):
    """The energy in a result; the rest of it, with each step, is not kept in memory."""

    replicates: tuple[_Process, ...] = ()


def cost_between(
    session: Session, begins: datetime, ends: datetime, now: datetime, project: str | None
) -> Cost:
    """The cost of all jobs that were submitted in a time, so far."""
    jobs = [Job.id >= _first_id(begins), Job.id < _first_id(ends)]
    if project is not None:
        jobs.append(Job.project == project)
    held = list(_held(session, jobs, now))
    known = list(_energies(session, jobs))
    counted = [energy_j for energy_j in known if energy_j is not None]
    return Cost(
        attempts=len(held),
        gpu_s=sum(seconds for device, seconds in held if device == "cuda"),
        cpu_s=sum(seconds for device, seconds in held if device != "cuda"),
        energy_j=sum(counted) if counted else None,
        results=len(known),
        with_energy=len(counted),
    )


def _first_id(at: datetime) -> str:
    """Sorts before each id of that millisecond."""
    return new_id(at)[:12]


def _held(
    session: Session, jobs: list[ColumnElement[bool]], now: datetime
) -> Iterator[tuple[str, float]]:
    """Each attempt's kind of device, and for how many seconds it held it."""
    query = (
        select(Attempt.granted_at, Attempt.ended_at, WorkerRow.labels)
        .join(Job, Job.id == Attempt.job_id)
        .join(WorkerRow, WorkerRow.name == Attempt.worker)
        .where(*jobs)
    )
    for granted_at, ended_at, labels in session.execute(query):
        held = max(_NOT_HERE, (ended_at or now) - granted_at)
        yield labels.get("device", ""), held.total_seconds()


def _energies(session: Session, jobs: list[ColumnElement[bool]]) -> Iterator[float | None]:
    """Energy (J) of the timed passes of each result; None if its device counted none.

    Few documents are in memory at a time.
    """
    of_jobs = select(ResultRow.id).join(Job, Job.id == ResultRow.job_id).where(*jobs)
    for some in batched(session.scalars(of_jobs).all(), BATCH):
        query = select(ResultRow.document).where(ResultRow.id.in_(some))
        for document in session.scalars(query):
            yield _energy_j(_Metered.model_validate_json(zlib.decompress(document)))


def _energy_j(result: _Metered) -> float | None:
    passes = [
        taken.energy_j for process in result.replicates for taken in process.telemetry.values()
    ]
    known = [energy_j for energy_j in passes if energy_j is not None and energy_j >= 0]
    return sum(known) if known else None
