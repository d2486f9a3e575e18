"""Stores a result: the document as it came, its environment, its points."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, cast

import orjson
from sqlalchemy import Table, bindparam, false, or_, select

from benchmarks import contracts
from benchmarks.diagnosis import disturbances
from service import models
from service.analysis.summary import summarise, within
from service.database import prepared
from service.database.session import insert_if_absent, new_id
from service.history import exclusions, pending, replicates, types

_ENVIRONMENTS = cast(Table, models.EnvironmentRow.__table__)
_RESULTS = cast(Table, models.ResultRow.__table__)
_REVISIONS = cast(Table, models.Revision.__table__)
_SERIES = cast(Table, models.SeriesRow.__table__)

_LEVEL = 1
"""Of zlib: half the time of level 6 for 6 % more bytes; most of a result is packed traces."""
_POINTS = cast(Table, models.Point.__table__)
_SHARED = frozenset(
    ("result_id", "revision", "revision_at", "measured_at", "environment", "worker", "disturbed")
)
"""Columns of points that are the same in all points of a result."""
_OF_ROW = tuple(field.name for field in fields(types.StoredResult) if field.name in _RESULTS.c)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database has already of what a result names."""

    revision_at: datetime
    environment: bool
    series_ids: frozenset[str | None]


def record(
    on: prepared.Runner,
    origin: types.Origin,
    result: contracts.Result,
    document: bytes,
    digest: str,
    now: datetime,
    *,
    counted: bool = True,
) -> str:
    """Store a result and give its id; one that is ok, counted and for history makes points.

    ``document`` is the `canonical` one, and ``digest`` its SHA-256. With the last replicate of a
    case come the points of all of them.
    """
    environment = facts_digest(result.environment.facts)
    of_history = counted and origin.purpose is contracts.Purpose.HISTORY
    history = of_history and result.status is contracts.Status.OK
    single = origin.replicates == 1
    samples = series_of(result, origin.project) if history and single else {}
    known = _look_up(on, origin.revision, environment, samples)
    if not known.environment:
        facts = {"facts": result.environment.facts, "first_seen_at": now}
        insert_if_absent(on, _ENVIRONMENTS, {"digest": environment, **facts})
    row: dict[str, Any] = {
        "id": new_id(now),
        "job_id": origin.job_id,
        "attempt": origin.attempt,
        "digest": digest,
        "counted": counted,
        "replicate": origin.replicate,
        "status": result.status.value,
        "reason": result.reason,
        "case_key": result.case.key,
        "project": origin.project,
        "revision": origin.revision,
        "worker": origin.worker,
        "environment": environment,
        "measured_at": result.measured_at,
        "received_at": now,
        "verdict": result.verdict.model_dump(mode="json") if result.verdict else None,
        "document": zlib.compress(document, _LEVEL),
    }
    prepared.inserting(_RESULTS, *row).run(on, **row)
    if history and single:
        same = {name: row[name] for name in _OF_ROW}
        _add_points(on, types.StoredResult(**same, result=result), samples, known, now)
    elif history:
        _add_case(on, origin, now)
    elif of_history:  # failures are news
        pending.mark_pending(on, now, origin.revision, known.revision_at, str(row["id"]))
    return str(row["id"])


def canonical(result: contracts.Result) -> bytes:
    """The one way to write ``result`` down: JSON with sorted keys and no spaces."""
    return orjson.dumps(result.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)


def digest_of(document: bytes) -> str:
    """SHA-256 of a canonical document, in hexadecimal."""
    return hashlib.sha256(document).hexdigest()


def series_of(result: contracts.Result, project: str = "") -> dict[str, contracts.Sample]:
    """The samples by the series that they belong to, in the order of the series' ids.

    An id follows from what defines a series, alike on every replica. That of a series without a
    project is what it was before there were any.
    """
    facts, key = result.environment.comparability(), result.case.key
    ids = {
        series_id(key, sample.metric, sample.unit, facts, project): sample
        for sample in result.samples
    }
    return dict(sorted(ids.items()))


def series_id(
    case_key: str, metric: str, unit: str, comparability: Mapping[str, str], project: str
) -> str:
    """The name of the series that these define."""
    parts = [case_key, metric, unit, comparability, *filter(None, [project])]
    return digest_of(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))[:32]


def facts_digest(facts: Mapping[str, str]) -> str:
    """Names an environment by its facts, and a set of labels by them."""
    return digest_of(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS))


@cache
def _lookup(series: int) -> prepared.Prepared:
    """Prepare the reading of a revision's time, share-locked, and of what is known of some names.

    The lock is so that a date learnt at this moment cannot miss the new points.
    """
    has_environment = (
        select(_ENVIRONMENTS.c.digest)
        .where(_ENVIRONMENTS.c.digest == bindparam("environment"))
        .exists()
    )
    same = or_(false(), *(_SERIES.c.id == bindparam(f"series_{n}") for n in range(series)))
    return prepared.Prepared(
        select(_REVISIONS.c.ordered_at, has_environment.label("environment"), _SERIES.c.id)
        .select_from(_REVISIONS.outerjoin(_SERIES, same))
        .where(_REVISIONS.c.name == bindparam("revision"))
        .with_for_update(read=True, of=_REVISIONS)
    )


def _look_up(
    on: prepared.Runner, revision: str, environment: str, series_ids: Collection[str]
) -> _Known:
    names = {f"series_{number}": name for number, name in enumerate(series_ids)}
    rows = _lookup(len(names)).run(on, revision=revision, environment=environment, **names)
    revision_at, has_environment, _ = rows[0]
    return _Known(revision_at, bool(has_environment), frozenset(row[2] for row in rows))


def _add_case(on: prepared.Runner, origin: types.Origin, now: datetime) -> None:
    """Add the points of a case, if it is whole with this result."""
    with prepared.session_on(on) as session:
        for part in replicates.whole(session, origin.group_id, origin.replicates):
            samples = series_of(part.result, part.project)
            known = _look_up(on, part.revision, part.environment, samples)
            _add_points(on, part, samples, known, now)
            exclusions.apply(session, part.parts)


def _add_points(
    on: prepared.Runner,
    stored: types.StoredResult,
    samples: Mapping[str, contracts.Sample],
    known: _Known,
    now: datetime,
) -> None:
    if not samples:  # of replicates that have no metric in common
        return
    # In the order of their names, so that two transactions never wait for each other in a ring.
    for name in sorted(samples.keys() - known.series_ids):
        insert_if_absent(on, _SERIES, _new_series(name, samples[name], stored))
    prepared.insert_rows(on, _POINTS, points_of(stored, known.revision_at, samples), _SHARED)
    pending.mark_pending(on, now, stored.revision, known.revision_at, stored.id)


def disturbed(result: contracts.Result) -> str:
    """Name the disturbances of a result's device, as its points store them; empty if none."""
    return ", ".join(disturbances.disturbances(result))[:500]


def points_of(
    stored: types.StoredResult, revision_at: datetime, samples: Mapping[str, contracts.Sample]
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
    return [{"series_id": name, **same, **_estimated(sample)} for name, sample in samples.items()]


def _new_series(name: str, sample: contracts.Sample, stored: types.StoredResult) -> dict[str, Any]:
    result = stored.result
    return {
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


def _estimated(sample: contracts.Sample) -> dict[str, Any]:
    summary = summarise(sample)
    return {
        "value": summary.value,
        "low": summary.low,
        "high": summary.high,
        "interval": summary.interval,
        "replicates": summary.replicates,
        "within": within(sample),
    }
