"""The pages of workers: which there are, and how one of them has been."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean, median

import orjson
from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.catalog.duration import expected_s
from benchmarks.catalog.metrics import METRICS
from benchmarks.contracts import JobSpec, JobState
from service import findings
from service.api.dependencies import DatabaseSession as Reading
from service.api.dependencies import LeaseTerms, Now
from service.auth.permissions import Permission, needs
from service.comparisons.worker_choice import LATELY
from service.dashboard import labels, queries, rendering
from service.dashboard.sparkline import sparkline
from service.errors import NotFound
from service.jobs import workers
from service.jobs.types import Terms
from service.models import FindingRow, Job, LabelSet, ResultRow

router = rendering.page_router(rendering.COUNTED)

LEASES_UNSEEN = 3
"""After so many leases without a sign a worker is gone: its job went to another after the first."""
REMEMBERED = timedelta(days=30)
"""Of the results whose readings are shown."""
RESULTS = 40
MOST_WAITING = 500
"""Queued jobs whose time is added up."""
DEVICE = ("sm_clock", "power")
"""Metrics that say how the device was."""


@router.get("/workers")
@needs(Permission.READ)
def list_workers(request: Request, session: Reading, now: Now, terms: LeaseTerms) -> HTMLResponse:
    """Show every worker that has ever introduced itself."""
    known = workers.every(session)
    queued = _queued(session)
    return rendering.render(
        request,
        "_workers.html" if rendering.partial(request) else "workers.html",
        now=now,
        workers=known,
        doing=queries.doing(session),
        waiting={one.name: waiting_for(one.labels, queued) for one in known},
        most=MOST_WAITING,
        gone_before=gone_before(now, terms),
    )


@router.get("/workers/{worker}")
@needs(Permission.READ)
def show_worker(
    request: Request, session: Reading, now: Now, terms: LeaseTerms, worker: str
) -> HTMLResponse:
    """Show one worker: what it does, what waits for it, and how its machine has been."""
    one = next((one for one in workers.every(session) if one.name == worker), None)
    if one is None:
        raise NotFound("There is no such worker; the list of workers names those that there are.")
    results = _results(session, worker, now)
    about = FindingRow.worker == worker
    return rendering.render(
        request,
        "worker.html",
        now=now,
        one=one,
        gone=one.last_seen_at < gone_before(now, terms),
        active=[job for job in queries.active_jobs(session) if job.worker == worker],
        waiting=waiting_for(one.labels, _queued(session)),
        most=MOST_WAITING,
        readings=list(readings(_told(session, row.id) for row in reversed(results))),
        results=results,
        findings=findings.list_findings(session, about, limit=RESULTS).items,
        days=REMEMBERED.days,
    )


def gone_before(now: datetime, terms: Terms) -> datetime:
    """A worker that was last seen before is gone."""
    return now - max(LATELY, LEASES_UNSEEN * terms.lease)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The queued jobs that a worker could take, and how long one worker would need for them."""

    jobs: int
    takes_s: float


def waiting_for(has: dict[str, str], queued: Sequence[tuple[dict[str, str], float]]) -> Waiting:
    """Add up the queued jobs whose labels a worker has: what each requires, and its seconds."""
    own = [takes_s for required, takes_s in queued if required.items() <= has.items()]
    return Waiting(len(own), sum(own))


def _queued(session: Session) -> list[tuple[dict[str, str], float]]:
    """Read what the next queued jobs require, and how long each takes by its protocol, in s."""
    query = (
        select(LabelSet.labels, Job.spec)
        .join(LabelSet, LabelSet.digest == Job.requires)
        .where(Job.state == JobState.QUEUED)
        .order_by(Job.rank, Job.id)
        .limit(MOST_WAITING)
    )
    specs = [(required, JobSpec.model_validate(spec)) for required, spec in session.execute(query)]
    return [(required, expected_s(spec.case, spec.protocol)) for required, spec in specs]


def _results(session: Session, worker: str, now: datetime) -> Sequence[ResultRow]:
    """The newest results of a worker, the newest first, without their documents."""
    query = (
        select(ResultRow)
        .where(ResultRow.worker == worker, ResultRow.measured_at >= now - REMEMBERED)
        .order_by(ResultRow.measured_at.desc())
        .limit(RESULTS)
    )
    return session.scalars(query).all()


Told = tuple[str, str, object, float]
"""Title and unit of a reading, when it was taken if not with its result, and its value."""


def _told(session: Session, result_id: str) -> list[Told]:
    """Keep of a document, which may have megabytes, its readings alone."""
    stored = session.scalars(select(ResultRow.document).where(ResultRow.id == result_id)).one()
    return list(readings_of(orjson.loads(zlib.decompress(stored))))


@dataclass(frozen=True, slots=True)
class MachineReading:
    """One reading of a machine over some results."""

    title: str
    unit: str
    newest: float
    usual: float
    """The median of those before the newest; the newest itself where it is alone."""
    spark: Markup

    @property
    def change(self) -> float:
        """The newest against the usual, as a share."""
        return self.newest / self.usual - 1 if self.usual else 0.0


def readings(results: Iterable[Iterable[Told]]) -> Iterator[MachineReading]:
    """The canaries and the device's clock and power of some results, the oldest first.

    A canary that several results tell of counts once.
    """
    values: dict[tuple[str, str], dict[object, float]] = {}
    for number, told in enumerate(results):
        for name, unit, at, value in told:
            values.setdefault((name, unit), {})[at or number] = value
    for (title, unit), known in values.items():
        *before, newest = known.values()
        usual = median(before or [newest])
        label = f"{title}, {len(known)} readings, the newest on the right"
        yield MachineReading(title, unit, newest, usual, sparkline(list(known.values()), label))


def readings_of(document: dict[str, object]) -> Iterator[Told]:
    """The readings of a result's document."""
    canary = document.get("canary")
    if isinstance(canary, dict):
        for name, value in canary["readings"].items():
            yield *labels.canary(name), canary["measured_at"], value
    samples = document.get("samples")
    for sample in samples if isinstance(samples, list) else ():
        if sample["metric"] in DEVICE:
            title = METRICS[sample["metric"]].title
            yield title, sample["unit"], None, fmean(sample["values"])
