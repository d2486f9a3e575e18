"""Checks each stored document, its row, and the points that it makes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import ValidationError
from sqlalchemy import Table, select
from sqlalchemy.orm import Session, undefer

from benchmarks import contracts
from service import models
from service.history import queries, record, replicates, types
from service.jobs.attempts import check_result
from service.maintenance.verify import agreement
from service.maintenance.verify.reading import history_of, pages
from service.maintenance.verify.values import Breach
from service.schemas.errors import Invalid

BATCH = 16
"""Documents in memory at once: each may have many megabytes."""
_CLOSE = 1e-9
"""Of a point's own size: another version of scipy may round its quantiles differently."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A result's row with those that it refers to; None where there is none."""

    row: models.ResultRow
    job: models.Job | None
    revision: models.Revision | None
    attempt: models.Attempt | None
    points: dict[str, Any]
    """By series."""
    excluded: frozenset[str]
    """Of the replicates of these cases: the results that somebody has taken out."""
    made: dict[str, str]
    """Series that came with it, and their directions."""


def every_result(session: Session) -> Iterator[Sequence[Breach]]:
    """Yield the breaches of each result, the oldest first."""
    row, attempt = models.ResultRow, models.Attempt
    query = (
        select(row.id, row, models.Job, models.Revision, attempt)
        .outerjoin(models.Job, models.Job.id == row.job_id)
        .outerjoin(models.Revision, models.Revision.name == row.revision)
        .outerjoin(attempt, (attempt.job_id == row.job_id) & (attempt.number == row.attempt))
        .options(undefer(row.document))
    )
    for rows in pages(session, query, (cast(Table, row.__table__).c.id,), BATCH):
        ids = [row.id for row in rows]
        points, made = _points(session, ids), _made(session, ids)
        excluded = _excluded(session, [job.group_id for _, _, job, *_ in rows if job])
        for name, result, job, revision, held in rows:
            others = (points.get(name, {}), excluded, made.get(name, {}))
            stored = _Stored(result, job, revision, held, *others)
            yield list(_result(session, stored))
        session.expunge_all()


def _result(session: Session, stored: _Stored) -> Iterator[Breach]:
    row = stored.row

    def breach(promise: int, sentence: str) -> Breach:
        log = history_of(session, row.job_id)
        return Breach(promise, f"job {row.job_id}, result {row.id}", sentence, log)

    document = _document(row)
    if document is None or record.digest_of(document) != row.digest:
        yield breach(2, "Its document is not what was answered for: the digest differs.")
        return
    try:
        result = contracts.Result.model_validate_json(document)
    except ValidationError:
        yield breach(2, "Its document is no Result that this version can read.")
        return
    for sentence in _disagreements(stored, result):
        yield breach(agreement.ROWS, sentence)
    made = _makes(session, stored, result)
    expected = _expected_points(stored, made)
    points = stored.points
    if points.keys() != expected.keys():
        yield breach(6, f"It should have {len(expected)} points in series and has {len(points)}.")
    for series in points.keys() & expected.keys():
        for difference in differences(points[series], expected[series]):
            yield breach(7, f"Its point in series {series} {difference}.")
    for sentence in _directions(stored, made):
        yield breach(agreement.ROWS, sentence)


def _document(row: models.ResultRow) -> bytes | None:
    try:
        return zlib.decompress(row.document)
    except zlib.error:
        return None


def _disagreements(stored: _Stored, result: contracts.Result) -> Iterator[str]:
    """Yield each way in which the row differs from its document, its job or its attempt."""
    row, job, attempt = stored.row, stored.job, stored.attempt
    expected_by_name = {
        "status": (result.status.value, "document"),
        "reason": (result.reason, "document"),
        "case_key": (result.case.key, "document"),
        "measured_at": (result.measured_at, "document"),
        "environment": (record.facts_digest(result.environment.facts), "document"),
        "project": (job and job.project, "job"),
        "revision": (job and job.revision, "job"),
        "worker": (attempt and attempt.worker, "attempt"),
    }
    if row.counted:
        expected_by_name["received_at"] = (attempt and attempt.ended_at, "attempt")
    for name, (expected, whose) in expected_by_name.items():
        if getattr(row, name) != expected:
            yield f"Its {name} is {getattr(row, name)}; its {whose} says {expected}."
    if not agreement.names_moment(row.id, row.received_at):
        yield f"It was not received at {row.received_at}, as its name tells."
    if not _same_verdict(row, result):
        yield "Its verdict is not the one of its document."
    spec = _spec(stored)
    if spec is not None and row.replicate != spec.replicate:
        yield f"It is of replicate {row.replicate}; its job is replicate {spec.replicate}."
    try:
        if spec is not None:
            check_result(spec, result)
    except Invalid as error:
        yield f"It is not of its job's case: {error.detail}"


def _same_verdict(row: models.ResultRow, result: contracts.Result) -> bool:
    try:
        kept = None if row.verdict is None else contracts.Verdict.model_validate(row.verdict)
    except ValidationError:
        return False
    return kept == result.verdict


def _spec(stored: _Stored) -> contracts.JobSpec | None:
    try:
        return contracts.JobSpec.model_validate(stored.job.spec) if stored.job else None
    except ValidationError:
        return None


def _makes(
    session: Session, stored: _Stored, result: contracts.Result
) -> types.StoredResult | None:
    """What makes points under a result's name: it alone, or with the other replicates of its case.

    None where nothing does: it does not count, or another replicate's name stands for both.
    """
    row, job, spec = stored.row, stored.job, _spec(stored)
    if job is None or spec is None or stored.revision is None:
        return None
    if not (
        row.counted
        and spec.purpose is contracts.Purpose.HISTORY
        and result.status is contracts.Status.OK
    ):
        return None
    if spec.protocol.replicates == 1:
        return replace(queries.stored_of(row), project=job.project, parts=(row.id,))
    if replicates.part_of(session, row.id)[0] != row.id:
        return None
    parts = replicates.parts_of_whole(session, job.group_id, spec.protocol.replicates)
    return next((part for part in parts if part.id == row.id), None)


def _expected_points(stored: _Stored, made: types.StoredResult | None) -> dict[str, dict[str, Any]]:
    """The points that a result makes, by series, whatever came before or after it."""
    if made is None or stored.revision is None:
        return {}
    samples = record.series_of(made.result, made.project)
    points = record.points_of(made, stored.revision.ordered_at, samples)
    excluded = not stored.excluded.isdisjoint(made.parts)
    return {point["series_id"]: {**point, "excluded": excluded} for point in points}


def _excluded(session: Session, group_ids: Sequence[str]) -> frozenset[str]:
    of_groups = select(models.ResultRow.id).join(
        models.Job, models.Job.id == models.ResultRow.job_id
    )
    ids = session.scalars(of_groups.where(models.Job.group_id.in_(group_ids))).all()
    return frozenset(queries.taken_out(session, ids))


def _points(session: Session, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    by_name: dict[str, dict[str, Any]] = {}
    for point in session.scalars(select(models.Point).where(models.Point.result_id.in_(ids))):
        by_name.setdefault(point.result_id, {})[point.series_id] = point
    return by_name


def _made(session: Session, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """The series that came with each of these results, and their directions."""
    query = (
        select(models.Point.result_id, models.SeriesRow.id, models.SeriesRow.direction)
        .join(models.SeriesRow, models.SeriesRow.id == models.Point.series_id)
        .join(models.ResultRow, models.ResultRow.id == models.Point.result_id)
        .where(
            models.Point.result_id.in_(ids),
            models.ResultRow.received_at == models.SeriesRow.created_at,
        )
    )
    by_name: dict[str, dict[str, str]] = {}
    for result_id, series, direction in session.execute(query):
        by_name.setdefault(result_id, {})[series] = direction
    return by_name


def _directions(stored: _Stored, made: types.StoredResult | None) -> Iterator[str]:
    samples = {} if made is None else record.series_of(made.result, made.project)
    for series, direction in stored.made.items():
        said = samples[series].direction.value if series in samples else None
        if said not in (None, direction):
            yield f"The series {series}, which it made, has the direction {direction}, not {said}."


def differences(point: Any, expected: dict[str, Any]) -> Iterator[str]:
    """Yield in which way a point is not the one that is due."""
    size = max(abs(expected[name] or 0.0) for name in ("value", "low", "high"))
    for field, due in expected.items():
        actual = getattr(point, field)
        if actual != due and not _close(actual, due, size):
            yield f"has {field} {actual} instead of {due}"


def _close(actual: Any, due: Any, size: float) -> bool:
    both = isinstance(actual, float) and isinstance(due, float)
    return both and math.isclose(actual, due, rel_tol=_CLOSE, abs_tol=_CLOSE * size)
