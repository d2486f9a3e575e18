"""The cost of a night: time of devices from attempts, energy from results that carry it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime

from pydantic import BaseModel
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from service.database.paging import batched
from service.database.session import new_id
from service.history.queries import BATCH
from service.jobs.spent import spent
from service.models import Job, ResultRow
from service.schemas.costs import Price
from service.schemas.nights import Cost


class _Meter(BaseModel):
    energy_j: float | None = None


class _Process(BaseModel):
    telemetry: dict[str, _Meter] = {}


class _Metered(BaseModel):
    """The energy in a result; the rest of it, with each step, is not kept in memory."""

    replicates: tuple[_Process, ...] = ()


def cost_between(
    session: Session,
    between: tuple[datetime, datetime],
    now: datetime,
    project: str | None,
    prices: Sequence[Price],
) -> Cost:
    """The cost of all jobs that were submitted in a time, so far."""
    begins, ends = between
    jobs = [Job.id >= _first_id(begins), Job.id < _first_id(ends)]
    if project is not None:
        jobs.append(Job.project == project)
    known = list(_energies(session, jobs))
    counted = [energy_j for energy_j in known if energy_j is not None]
    return Cost(
        **dict(spent(session, prices, now, *jobs)),
        energy_j=sum(counted) if counted else None,
        results=len(known),
        with_energy=len(counted),
    )


def _first_id(at: datetime) -> str:
    """Sorts before each id of that millisecond."""
    return new_id(at)[:12]


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
