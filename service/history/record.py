"""Stores a result: the document as it came, its environment, its points."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, cast

import orjson
from sqlalchemy import Table, bindparam, or_, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Environment, Purpose, Result, Sample, Status
from benchmarks.diagnosis import disturbances
from service import models
from service.analysis.summary import summarise
from service.database.ids import new_id
from service.database.prepared import Prepared, inserting
from service.database.session import insert_if_absent
from service.history import pending
from service.history.types import Origin, Place

_ENVIRONMENTS = cast(Table, models.EnvironmentRow.__table__)
_RESULTS = cast(Table, models.ResultRow.__table__)
_REVISIONS = cast(Table, models.Revision.__table__)
_SERIES = cast(Table, models.SeriesRow.__table__)

_LEVEL = 1
"""Of zlib: half the time of level 6 for 6 % more bytes; most of a result is packed traces."""
_POINTS = cast(Table, models.Point.__table__)
_HAS_ENVIRONMENT = Prepared(
    select(_ENVIRONMENTS.c.digest).where(_ENVIRONMENTS.c.digest == bindparam("digest"))
)
_REVISION_AT = Prepared(
    select(_REVISIONS.c.ordered_at)
    .where(_REVISIONS.c.name == bindparam("name"))
    # Share-locked, so that a date learnt at this moment cannot miss the new points.
    .with_for_update(read=True)
)


@dataclass(frozen=True, slots=True)
class StoredPoints:
    """A result and the one way to write it down."""

    result: Result
    document: bytes
    digest: str
    """SHA-256 of the document, in hexadecimal."""


def recorded(result: Result) -> StoredPoints:
    """Write ``result`` down."""
    document = canonical(result)
    return StoredPoints(result, document, digest_of(document))


def record(
    session: Session,
    origin: Origin,
    kept: StoredPoints,
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
    row = {
        "id": new_id(now),
        "job_id": origin.job_id,
        "attempt": origin.attempt,
        "digest": kept.digest,
        "counted": counted,
        "turn": turn,
        "status": result.status.value,
        "reason": result.reason,
        "case_key": result.case.key,
        "project": origin.project,
        "revision": origin.revision,
        "worker": origin.worker,
        "environment": _keep_environment(session, result.environment, now),
        "measured_at": result.measured_at,
        "received_at": now,
        "verdict": result.verdict.model_dump(mode="json") if result.verdict else None,
        "document": zlib.compress(kept.document, _LEVEL),
    }
    inserting(_RESULTS, *row).run(session, **row)
    if counted and origin.purpose is Purpose.HISTORY and result.status is Status.OK:
        _add_points(session, row, result, now)
    return str(row["id"])


def canonical(result: Result) -> bytes:
    """The one way to write ``result`` down: JSON with sorted keys and no spaces."""
    return orjson.dumps(result.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)


def digest_of(document: bytes) -> str:
    """SHA-256 of a canonical document, in hexadecimal."""
    return hashlib.sha256(document).hexdigest()


def series_of(result: Result, project: str = "") -> dict[str, Sample]:
    """The samples by the series that they belong to, in the order of the series' ids.

    An id follows from what defines a series, alike on every replica. That of a series without a
    project is what it was before there were any.
    """
    facts, key = result.environment.comparability(), result.case.key
    found = {
        series_id(key, sample.metric, sample.unit, facts, project): sample
        for sample in result.samples
    }
    return dict(sorted(found.items()))


def series_id(
    case_key: str, metric: str, unit: str, comparability: Mapping[str, str], project: str
) -> str:
    """The name of the series that these define."""
    parts = [case_key, metric, unit, comparability, *filter(None, [project])]
    return digest_of(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))[:32]


def facts_digest(facts: Mapping[str, str]) -> str:
    """Names an environment by its facts, and a set of labels by them."""
    return digest_of(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS))


def _keep_environment(session: Session, environment: Environment, now: datetime) -> str:
    digest = facts_digest(environment.facts)
    if not _HAS_ENVIRONMENT.run(session, digest=digest):
        row = {"digest": digest, "facts": environment.facts, "first_seen_at": now}
        insert_if_absent(session, _ENVIRONMENTS, row)
    return digest


def _add_points(session: Session, row: Mapping[str, Any], result: Result, now: datetime) -> None:
    ((revision_at,),) = _REVISION_AT.run(session, name=row["revision"])
    samples = series_of(result, row["project"])
    _keep_series(session, result, row["project"], samples, now)
    place = Place(
        result_id=row["id"],
        revision=row["revision"],
        revision_at=revision_at,
        measured_at=row["measured_at"],
        environment=row["environment"],
        worker=row["worker"],
        disturbed=disturbed(result),
    )
    points = points_of(place, samples)
    inserting(_POINTS, *points[0]).many(session, points)
    pending.mark_pending(session, now, place.revision, revision_at, place.result_id)


def disturbed(result: Result) -> str:
    """Name the disturbances of a result's device, as its points store them; empty if none."""
    return ", ".join(disturbances.disturbances(result))[:500]


def points_of(place: Place, samples: Mapping[str, Sample]) -> list[dict[str, Any]]:
    """The points that a stored result's samples make; nothing else decides on them."""
    return [
        {
            "series_id": name,
            "result_id": place.result_id,
            "revision": place.revision,
            "revision_at": place.revision_at,
            "measured_at": place.measured_at,
            "environment": place.environment,
            "worker": place.worker,
            "disturbed": place.disturbed,
            **_told(sample),
        }
        for name, sample in samples.items()
    ]


@cache
def _known(names: tuple[str, ...]) -> Prepared:
    return Prepared(select(_SERIES.c.id).where(or_(*(_SERIES.c.id == bindparam(n) for n in names))))


def _keep_series(
    session: Session, result: Result, project: str, samples: Mapping[str, Sample], now: datetime
) -> None:
    """Make the series that the samples belong to; a night after the first makes none."""
    names = {f"id_{number}": name for number, name in enumerate(samples)}
    known = {name for (name,) in _known(tuple(names)).run(session, **names)}
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
            "project": project,
            "created_at": now,
        }
        insert_if_absent(session, _SERIES, row)


def _told(sample: Sample) -> dict[str, Any]:
    summary = summarise(sample)
    return {
        "value": summary.value,
        "low": summary.low,
        "high": summary.high,
        "interval": summary.interval,
        "replicates": summary.replicates,
    }
