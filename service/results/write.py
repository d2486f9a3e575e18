"""Stores a result: the document as it came, its environment, its points."""

from __future__ import annotations

import hashlib
import zlib
from datetime import datetime
from typing import Any, cast

import orjson
from sqlalchemy import Table, insert, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Environment, JobSpec, Purpose, Result, Sample, Status
from service.database import insert_if_absent
from service.ids import new_id
from service.levels import unjudged
from service.models import Attempt, EnvironmentRow, Job, Point, ResultRow, Revision, SeriesRow
from service.summary import summarise

_ENVIRONMENTS = cast(Table, EnvironmentRow.__table__)
_SERIES = cast(Table, SeriesRow.__table__)


def record(
    session: Session,
    job: Job,
    attempt: Attempt,
    result: Result,
    now: datetime,
    *,
    counted: bool = True,
    turn: int | None = None,
) -> str:
    """Store ``result`` and give its id; one that is ok, counted and for history makes points.

    That of one turn of a job counts for nothing by itself.
    """
    counted = counted and turn is None
    document = canonical(result)
    row = ResultRow(
        id=new_id(now),
        job_id=job.id,
        attempt=attempt.number,
        digest=digest_of(document),
        counted=counted,
        turn=turn,
        status=result.status.value,
        reason=result.reason,
        case_key=result.case.key,
        revision=job.revision,
        worker=attempt.worker,
        environment=_keep_environment(session, result.environment, now),
        measured_at=result.measured_at,
        received_at=now,
        verdict=result.verdict.model_dump(mode="json") if result.verdict else None,
        document=zlib.compress(document),
    )
    session.add(row)
    session.flush()
    for_history = JobSpec.model_validate(job.spec).purpose is Purpose.HISTORY
    if counted and for_history and result.status is Status.OK:
        _add_points(session, row, result, now)
    return row.id


def canonical(result: Result) -> bytes:
    """The one way to write ``result`` down: JSON with sorted keys and no spaces."""
    return orjson.dumps(result.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)


def digest_of(document: bytes) -> str:
    """SHA-256 of a canonical document, in hexadecimal."""
    return hashlib.sha256(document).hexdigest()


def series_id(result: Result, sample: Sample) -> str:
    """Name the series that ``sample`` belongs to, from what defines it, alike on every replica."""
    parts = [result.case.key, sample.metric, sample.unit, result.environment.comparability()]
    return digest_of(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))[:32]


def _keep_environment(session: Session, environment: Environment, now: datetime) -> str:
    digest = digest_of(orjson.dumps(environment.facts, option=orjson.OPT_SORT_KEYS))
    row = {"digest": digest, "facts": environment.facts, "first_seen_at": now}
    insert_if_absent(session, _ENVIRONMENTS, row)
    return digest


def _add_points(session: Session, row: ResultRow, result: Result, now: datetime) -> None:
    # Share-locked, so that a date learnt at this moment cannot miss the new points.
    revision_at = session.scalars(
        select(Revision.ordered_at).where(Revision.name == row.revision).with_for_update(read=True)
    ).one()
    # In the order of their names, so that two transactions never wait for each other in a ring.
    for sample in sorted(result.samples, key=lambda sample: series_id(result, sample)):
        _keep_series(session, result, sample, now)
    session.execute(insert(Point), points_of(row, result, revision_at))
    unjudged.note(session, now, row.revision, revision_at, row.id)


def points_of(row: ResultRow, result: Result, revision_at: datetime) -> list[dict[str, Any]]:
    """The points that a stored result makes, ordered by series; nothing else decides on them."""
    made = [
        _point(row, series_id(result, sample), sample, revision_at) for sample in result.samples
    ]
    return sorted(made, key=lambda point: str(point["series_id"]))


def _keep_series(session: Session, result: Result, sample: Sample, now: datetime) -> None:
    row = {
        "id": series_id(result, sample),
        "case_key": result.case.key,
        "case": result.case.model_dump(mode="json"),
        "metric": sample.metric,
        "unit": sample.unit,
        "direction": sample.direction.value,
        "comparability": result.environment.comparability(),
        "created_at": now,
    }
    insert_if_absent(session, _SERIES, row)


def _point(row: ResultRow, series: str, sample: Sample, revision_at: datetime) -> dict[str, Any]:
    summary = summarise(sample)
    return {
        "series_id": series,
        "revision_at": revision_at,
        "revision": row.revision,
        "measured_at": row.measured_at,
        "result_id": row.id,
        "value": summary.value,
        "low": summary.low,
        "high": summary.high,
        "interval": summary.interval,
        "replicates": summary.replicates,
        "environment": row.environment,
        "worker": row.worker,
    }
