"""Stores a result: the document as it came, its environment, its points."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
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
_POINTS = cast(Table, Point.__table__)
_SERIES = cast(Table, SeriesRow.__table__)


@dataclass(frozen=True, slots=True)
class Written:
    """A result and the one way to write it down."""

    result: Result
    document: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the document, in hexadecimal."""
        return digest_of(self.document)


def written(result: Result) -> Written:
    """Write ``result`` down."""
    return Written(result, canonical(result))


def record(
    session: Session,
    job: Job,
    attempt: Attempt,
    kept: Written,
    now: datetime,
    *,
    counted: bool = True,
    turn: int | None = None,
) -> str:
    """Store a result and give its id; one that is ok, counted and for history makes points.

    That of one turn of a job counts for nothing by itself.
    """
    counted = counted and turn is None
    result = kept.result
    row = ResultRow(
        id=new_id(now),
        job_id=job.id,
        attempt=attempt.number,
        digest=kept.digest,
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
        document=zlib.compress(kept.document),
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


def series_of(result: Result) -> dict[str, Sample]:
    """The samples by the series that they belong to, in the order of the series' ids.

    An id follows from what defines a series, alike on every replica.
    """
    facts, found = result.environment.comparability(), {}
    for sample in result.samples:
        parts = [result.case.key, sample.metric, sample.unit, facts]
        told = digest_of(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))
        found[told[:32]] = sample
    return dict(sorted(found.items()))


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
    samples = series_of(result)
    _keep_series(session, result, samples, now)
    # Of the table, not of the class, which makes a statement for each set of columns that are null.
    session.execute(insert(_POINTS), points_of(row, samples, revision_at))
    unjudged.note(session, now, row.revision, revision_at, row.id)


def points_of(
    row: ResultRow, samples: Mapping[str, Sample], revision_at: datetime
) -> list[dict[str, Any]]:
    """The points that a stored result's samples make; nothing else decides on them."""
    return [_point(row, name, sample, revision_at) for name, sample in samples.items()]


def _keep_series(
    session: Session, result: Result, samples: Mapping[str, Sample], now: datetime
) -> None:
    """Make the series that the samples belong to; a night after the first makes none."""
    known = set(session.scalars(select(SeriesRow.id).where(SeriesRow.id.in_(samples))))
    # In the order of their names, so that two transactions never wait for each other in a ring.
    for name in sorted(samples.keys() - known):
        sample = samples[name]
        row = {
            "id": name,
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
