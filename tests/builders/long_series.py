"""Series of any length, written straight into the tables, for tests of what reads histories."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from benchmarks.contracts import (
    Case,
    Claim,
    Direction,
    Environment,
    JobSpec,
    Protocol,
    Purpose,
    Result,
    Sample,
    Status,
)
from service.database.session import insert_if_absent
from service.findings.bad_nodes import compare_nodes
from service.findings.pipeline import conclude, follow_series
from service.history import analysis, pending
from service.history.record import canonical
from service.history.revisions import COMPARISON
from service.history.slow_workers import slow_periods
from service.jobs import attempts, leases, types
from service.models import (
    EnvironmentRow,
    Job,
    Point,
    ResultRow,
    Revision,
    SeriesRow,
    Submission,
    WorkerRow,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
SERIES, OTHER = "5" * 32, "7" * 32
CASES = {
    SERIES: Case(workload="resnet50", preset="full"),
    OTHER: Case(workload="resnet50", preset="full", axes={"precision": "bf16"}),
}


BEFORE_ALL = "before-all"
"""A revision without points, which the job behind all results names."""
STEADY, DROPPED, RAISED = [100.0] * 20, [95.0] * 12, [106.0] * 12
"""Values before and after a change that is told."""


def revision_of(number: int) -> str:
    return f"r{number:05d}"


def result_of(number: int, place: int = 0) -> str:
    return f"{place:016x}{number:016x}"


def placed_at(number: int) -> datetime:
    return START + timedelta(days=number)


def _result(value: float, at: datetime, series_id: str) -> Result:
    return Result(
        case=CASES[series_id],
        status=Status.OK,
        measured_at=at,
        protocol=Protocol(),
        environment=Environment(facts={"hw.gpu.name": "NVIDIA H200"}),
        samples=(
            Sample(metric="throughput", unit="img/s", direction=Direction.HIGHER, values=(value,)),
        ),
    )


def document_of(value: float, at: datetime, series_id: str) -> bytes:
    """The stored form of a result with this throughput."""
    return zlib.compress(canonical(_result(value, at, series_id)))


def prepare(session: Session, workers: Sequence[str] = ("w",), project: str = "") -> None:
    """Everything that points refer to, except their revisions and results."""
    spec = JobSpec(case=CASES[SERIES], revision=BEFORE_ALL, purpose=Purpose.COMPARISON)
    session.add(Revision(name=BEFORE_ALL, ordered_at=START, dated=True, first_seen_at=START))
    session.add(EnvironmentRow(digest="e", facts={}, first_seen_at=START))
    for name in workers:
        session.add(
            WorkerRow(name=name, labels={}, version="", first_seen_at=START, last_seen_at=START)
        )
    session.flush()
    first = Submission(id="u", suite=None, revision=BEFORE_ALL, source="api", created_at=START)
    first.project = project
    session.add(first)
    session.flush()
    _a_job_that_is_done(session, spec, workers[0])
    for series_id in CASES:
        _add_series(session, series_id)


def _a_job_that_is_done(session: Session, spec: JobSpec, worker: str) -> None:
    """The one job that all results belong to; what it measured itself makes no point."""
    leases.submit(session, [spec], "u", START)
    terms = types.Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
    lease = leases.lease(session, Claim(worker=worker, claim_id="c" * 32), terms, START)
    assert lease is not None
    holder = types.Holder(lease.job_id, lease.attempt, lease.secret)
    attempts.start(session, holder, terms, START)
    attempts.complete(session, holder, _result(1.0, START, SERIES), START)


def _add_series(session: Session, series_id: str) -> None:
    case = CASES[series_id]
    session.add(
        SeriesRow(
            id=series_id, case_key=case.key, case=case.model_dump(mode="json"),
            metric="throughput", unit="img/s", direction="higher",
            comparability={"hw.gpu.name": "NVIDIA H200"}, created_at=START,
        )
    )  # fmt: skip
    session.flush()


def add(
    session: Session,
    values: dict[int, float],
    worker: str = "w",
    series_id: str = SERIES,
    place: int = 0,
    minutes: int = 0,
    *,
    disturbed: str = "",
    project: str = "",
) -> None:
    """Points of ``series_id`` at the revisions with these numbers, noted as not yet analysed.

    ``place`` tells apart what is measured at one revision, and ``minutes`` orders it; ``disturbed``
    says what was wrong with the device.
    """
    revisions, results, points = [], [], []
    job_id = session.scalars(select(Job.id)).one()
    for number, value in values.items():
        at, revision, result = placed_at(number), revision_of(number), result_of(number, place)
        revisions.append({"name": revision, "ordered_at": at, "dated": True, "first_seen_at": at})
        results.append(
            {
                "id": result, "job_id": job_id, "attempt": 1, "digest": result, "counted": False,
                "replicate": 1,
                "status": "ok", "reason": "", "case_key": "", "revision": revision,
                "project": project, "worker": worker, "environment": "e", "measured_at": at,
                "received_at": at,
                "verdict": None, "document": document_of(value, at, series_id),
            }
        )  # fmt: skip
        point = _point(number, value, worker, series_id, place)
        later = {"measured_at": at + timedelta(minutes=minutes), "disturbed": disturbed}
        points.append(point | later)
    for row in revisions:
        insert_if_absent(session, Revision.__table__, row)  # type: ignore[arg-type]
        submitted = {"id": f"u-{row['name']}", "suite": None, "revision": row["name"]}
        submitted |= {"source": "api", "created_at": row["first_seen_at"]}
        insert_if_absent(session, Submission.__table__, submitted)  # type: ignore[arg-type]
    session.execute(insert(ResultRow), results)
    session.execute(insert(Point), points)
    for number in values:
        result = result_of(number, place)
        pending.mark_pending(session, START, revision_of(number), placed_at(number), result)
    session.flush()


def add_proposals(session: Session, number: int, count: int) -> None:
    """Revisions made after the one with this number that were only compared: proposed changes."""
    for place in range(count):
        name = f"proposal-{number}-{place}"
        at = placed_at(number) + timedelta(minutes=1 + place)
        session.add(Revision(name=name, ordered_at=at, dated=True, first_seen_at=at))
        session.flush()
        source = f"{COMPARISON}{name}"
        session.add(Submission(id=name, suite=None, revision=name, source=source, created_at=at))
    session.flush()


def add_point(
    session: Session,
    number: int,
    value: float,
    series_id: str,
    worker: str = "w",
    place: int = 0,
) -> None:
    """One more metric of a result that is there already."""
    session.execute(insert(Point), [_point(number, value, worker, series_id, place)])


def noisy(levels_: Sequence[float], seed: int = 1, deviation: float = 0.003) -> list[float]:
    """Values around these, ``deviation`` of each apart."""
    random = np.random.default_rng(seed)
    return [float(level * np.exp(random.normal(0, deviation))) for level in levels_]


def analyse(session: Session, series_id: str, since: datetime) -> None:
    """Analyse one series, as the service does in two steps."""
    points = analysis.read(session, series_id, since)
    analysis.store(session, points, analysis.analyse(points), START)


def look(session: Session) -> list[str]:
    """Analyse whatever waits, without measuring anything again; ids of the findings opened."""
    due = pending.pending_series(session)
    for series_id, since in due.since.items():
        analyse(session, series_id, since)
    ill = slow_periods(session)
    followed = [follow_series(session, series_id, ill, START) for series_id in sorted(due.since)]
    compared = compare_nodes(session)
    return list(conclude(session, due.notes, followed, compared, START, daily=0).opened)


def _point(number: int, value: float, worker: str, series_id: str, place: int) -> dict[str, object]:
    at = placed_at(number)
    return {
        "series_id": series_id, "revision_at": at, "revision": revision_of(number),
        "measured_at": at, "result_id": result_of(number, place), "value": value, "low": None,
        "high": None, "interval": "none", "replicates": 1, "environment": "e",
        "worker": worker, "excluded": False,
    }  # fmt: skip
