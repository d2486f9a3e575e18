"""Stores a result: the document as it came, its environment, its points."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, cast

import orjson
from sqlalchemy import Table, bindparam, or_, select

from benchmarks.contracts import Environment, Purpose, Result, Sample, Status
from benchmarks.diagnosis import disturbances
from service import models
from service.analysis.summary import summarise
from service.database.ids import new_id
from service.database.prepared import Prepared, Runner, inserting, session_on
from service.database.session import insert_if_absent
from service.history import exclusions, pending, replicates
from service.history.types import Origin, StoredResult

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
    on: Runner,
    origin: Origin,
    kept: StoredPoints,
    now: datetime,
    *,
    counted: bool = True,
) -> str:
    """Store a result and give its id; one that is ok, counted and for history makes points.

    With the last replicate of a case come the points of all of them.
    """
    result = kept.result
    row = {
        "id": new_id(now),
        "job_id": origin.job_id,
        "attempt": origin.attempt,
        "digest": kept.digest,
        "counted": counted,
        "replicate": origin.replicate,
        "status": result.status.value,
        "reason": result.reason,
        "case_key": result.case.key,
        "project": origin.project,
        "revision": origin.revision,
        "worker": origin.worker,
        "environment": _keep_environment(on, result.environment, now),
        "measured_at": result.measured_at,
        "received_at": now,
        "verdict": result.verdict.model_dump(mode="json") if result.verdict else None,
        "document": zlib.compress(kept.document, _LEVEL),
    }
    inserting(_RESULTS, *row).run(on, **row)
    if counted and origin.purpose is Purpose.HISTORY and result.status is Status.OK:
        for part in _parts(on, row, result, origin):
            _add_points(on, part, now)
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


def _keep_environment(on: Runner, environment: Environment, now: datetime) -> str:
    digest = facts_digest(environment.facts)
    if not _HAS_ENVIRONMENT.run(on, digest=digest):
        row = {"digest": digest, "facts": environment.facts, "first_seen_at": now}
        insert_if_absent(on, _ENVIRONMENTS, row)
    return digest


def _parts(
    on: Runner, row: Mapping[str, Any], result: Result, origin: Origin
) -> list[StoredResult]:
    """What makes points now: a result by itself, or its case if that is whole with it."""
    if origin.replicates > 1:
        with session_on(on) as session:
            return replicates.whole(session, origin.group_id, origin.replicates)
    same = {field.name: row[field.name] for field in fields(StoredResult) if field.name in row}
    return [StoredResult(**same, result=result)]


def _add_points(on: Runner, stored: StoredResult, now: datetime) -> None:
    samples = series_of(stored.result, stored.project)
    if not samples:  # of replicates that have no metric in common
        return
    ((revision_at,),) = _REVISION_AT.run(on, name=stored.revision)
    _keep_series(on, stored, samples)
    points = points_of(stored, revision_at, samples)
    inserting(_POINTS, *points[0]).many(on, points)
    pending.mark_pending(on, now, stored.revision, revision_at, stored.id)
    if stored.parts:
        with session_on(on) as session:
            exclusions.apply(session, stored.parts)


def disturbed(result: Result) -> str:
    """Name the disturbances of a result's device, as its points store them; empty if none."""
    return ", ".join(disturbances.disturbances(result))[:500]


def points_of(
    stored: StoredResult, revision_at: datetime, samples: Mapping[str, Sample]
) -> list[dict[str, Any]]:
    """The points that a stored result's samples make; nothing else decides on them."""
    same = {
        "result_id": stored.id,
        "revision": stored.revision,
        "revision_at": revision_at,
        "measured_at": stored.result.measured_at,
        "environment": stored.environment,
        "worker": stored.worker,
        "disturbed": disturbed(stored.result),
    }
    return [{"series_id": name, **same, **_told(sample)} for name, sample in samples.items()]


@cache
def _known(names: tuple[str, ...]) -> Prepared:
    return Prepared(select(_SERIES.c.id).where(or_(*(_SERIES.c.id == bindparam(n) for n in names))))


def _keep_series(on: Runner, stored: StoredResult, samples: Mapping[str, Sample]) -> None:
    """Make the series that the samples belong to; a night after the first makes none."""
    result = stored.result
    names = {f"id_{number}": name for number, name in enumerate(samples)}
    known = {name for (name,) in _known(tuple(names)).run(on, **names)}
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
            "project": stored.project,
            "created_at": stored.received_at,
        }
        insert_if_absent(on, _SERIES, row)


def _told(sample: Sample) -> dict[str, Any]:
    summary = summarise(sample)
    return {
        "value": summary.value,
        "low": summary.low,
        "high": summary.high,
        "interval": summary.interval,
        "replicates": summary.replicates,
    }
