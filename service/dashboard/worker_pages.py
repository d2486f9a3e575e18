"""The pages of workers: which there are, and how one of them has been."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

import orjson
from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.catalog.duration import expected_s
from benchmarks.catalog.metrics import METRICS
from benchmarks.contracts import JobSpec
from service import findings
from service.api.dependencies import LeaseTerms, Now, Reading
from service.auth.permissions import Permission
from service.comparisons.worker_choice import LATELY
from service.dashboard import labels, queries, rendering
from service.dashboard.sparkline import sparkline
from service.jobs import workers
from service.jobs.types import Terms
from service.models import FindingRow, Job, Point, ResultRow, SeriesRow
from service.schemas.errors import NotFound

router = rendering.page_router(rendering.COUNTED)

LEASES_UNSEEN = 3
"""After so many leases without a sign a worker is gone: its job went to another after the first."""
REMEMBERED = timedelta(days=30)
"""Age of the oldest results whose readings are shown."""
RESULTS = 40
MOST_TIMED = 500
"""Queued jobs of a worker whose time is added up."""
DEVICE = ("sm_clock", "power")
"""Metrics that say how the device was; each case has its own usual value."""


@router.get("/workers")
@Permission.READ.required
def list_workers(request: Request, session: Reading, now: Now, terms: LeaseTerms) -> HTMLResponse:
    """Show every worker that has ever introduced itself."""
    return rendering.render(
        request,
        "_workers.html" if rendering.partial(request) else "workers.html",
        now=now,
        workers=workers.every(session),
        doing=queries.doing(session),
        waiting=queries.queued_for(session),
        gone_before=gone_before(now, terms),
    )


@router.get("/workers/{worker}")
@Permission.READ.required
def show_worker(
    request: Request, session: Reading, now: Now, terms: LeaseTerms, worker: str
) -> HTMLResponse:
    """Show one worker: what it does, what waits for it, and how its machine has been."""
    one = next((one for one in workers.every(session) if one.name == worker), None)
    if one is None:
        raise NotFound("There is no such worker; the list of workers names those that there are.")
    results = _results(session, worker, now)
    about = FindingRow.worker == worker
    canaries, links = _canaries(session, results)
    return rendering.render(
        request,
        "worker.html",
        now=now,
        one=one,
        gone=one.last_seen_at < gone_before(now, terms),
        active=[job for job in queries.active_jobs(session) if job.worker == worker],
        waiting=_waiting(session, worker),
        readings=[*_of_device(session, results), *canaries],
        links=links,
        results=results,
        findings=findings.list_findings(session, about, limit=RESULTS).items,
        days=REMEMBERED.days,
    )


def gone_before(now: datetime, terms: Terms) -> datetime:
    """A worker that was last seen before is gone."""
    return now - max(LATELY, LEASES_UNSEEN * terms.lease)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The queued jobs that a worker could take, and what it would need for the first of them."""

    jobs: int
    timed: int
    takes_s: float
    """Seconds by the protocols of the first ``timed`` jobs."""


def _waiting(session: Session, worker: str) -> Waiting:
    jobs = queries.queued_for(session).get(worker, 0)
    query = select(Job.spec).where(*queries.could_take(worker)).order_by(Job.rank, Job.id)
    specs = map(JobSpec.model_validate, session.scalars(query.limit(MOST_TIMED)))
    takes_s = [expected_s(spec.case, spec.protocol) for spec in specs]
    return Waiting(jobs, len(takes_s), sum(takes_s))


def _results(session: Session, worker: str, now: datetime) -> Sequence[ResultRow]:
    """The newest results of a worker, the newest first, without their documents."""
    query = (
        select(ResultRow)
        .where(ResultRow.worker == worker, ResultRow.measured_at >= now - REMEMBERED)
        .order_by(ResultRow.measured_at.desc())
        .limit(RESULTS)
    )
    return session.scalars(query).all()


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


def reading(title: str, unit: str, values: Sequence[float]) -> MachineReading:
    """A reading over some results, the oldest first."""
    *before, newest = values
    label = f"{title}, {len(values)} readings, the newest on the right"
    return MachineReading(title, unit, newest, median(before or [newest]), sparkline(values, label))


def _of_device(session: Session, results: Sequence[ResultRow]) -> Iterator[MachineReading]:
    """The device's clock and power in the case that it measured last, by that case alone."""
    for metric in DEVICE:
        newest = (
            select(SeriesRow.id, SeriesRow.case_key)
            .join(Point, Point.series_id == SeriesRow.id)
            .where(SeriesRow.metric == metric, Point.result_id.in_([one.id for one in results]))
            .order_by(Point.measured_at.desc())
            .limit(1)
        )
        known = session.execute(newest).first()
        if known is None:
            continue
        series, case = known
        since = results[0].measured_at - REMEMBERED
        of_worker = Point.worker == results[0].worker, Point.measured_at >= since
        query = select(Point.value).where(Point.series_id == series, *of_worker)
        values = session.scalars(query.order_by(Point.measured_at.desc()).limit(RESULTS)).all()
        yield reading(f"{METRICS[metric].title}, {case}", METRICS[metric].unit, values[::-1])


def _canaries(
    session: Session, results: Sequence[ResultRow]
) -> tuple[Sequence[MachineReading], str]:
    """The canaries that results, the newest first, tell of, each once; what the newest one's links
    are like, of a worker with several GPUs."""
    values: dict[str, dict[str, float]] = {}
    facts: dict[str, str] = {}
    for row in reversed(results):
        # A document may have megabytes: one at a time is unpacked.
        stored = session.scalars(select(ResultRow.document).where(ResultRow.id == row.id)).one()
        canary = orjson.loads(zlib.decompress(stored)).get("canary") or {"readings": {}}
        for name, value in canary["readings"].items():
            values.setdefault(name, {})[canary["measured_at"]] = value
        facts = canary.get("facts") or facts
    readings = [
        reading(*labels.canary(name), list(known.values())) for name, known in values.items()
    ]
    return readings, "; ".join(f"{labels.plain(name)} {value}" for name, value in facts.items())
