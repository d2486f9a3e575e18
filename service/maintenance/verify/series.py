"""Checks each stored document, its row, and the points that it makes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from benchmarks import contracts
from service import models
from service.errors import Invalid
from service.history import queries, record, types
from service.jobs.validation import check_result
from service.maintenance.verify.agreement import ROWS, names_moment
from service.maintenance.verify.reading import history_of
from service.maintenance.verify.values import Breach

BATCH = 16
"""Documents in memory at once: each may have many megabytes."""
_CLOSE = 1e-9
"""Of a point's own size: another version of scipy may round its quantiles differently."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A result's row, and what its job, revision and attempt say; None where there is none."""

    row: models.ResultRow
    spec: Any
    project: str | None
    job_revision: str | None
    revision_at: Any
    worker: str | None
    ended_at: Any
    points: dict[str, Any]
    """By series."""
    excluded: bool
    """Whether somebody has taken it out of its histories."""
    made: dict[str, str]
    """Series that came with it, and their directions."""


def every_result(session: Session) -> Iterator[Sequence[Breach]]:
    """Yield the breaches of each result, the oldest first."""
    last = ""
    fields = (models.Job.spec, models.Job.project, models.Job.revision, models.Revision.ordered_at)
    while True:
        wanted = (
            select(models.ResultRow, *fields, models.Attempt.worker, models.Attempt.ended_at)
            .outerjoin(models.Job, models.Job.id == models.ResultRow.job_id)
            .outerjoin(models.Revision, models.Revision.name == models.ResultRow.revision)
            .outerjoin(
                models.Attempt,
                (models.Attempt.job_id == models.ResultRow.job_id)
                & (models.Attempt.number == models.ResultRow.attempt),
            )
            .where(models.ResultRow.id > last)
            .order_by(models.ResultRow.id)
            .limit(BATCH)
            .options(undefer(models.ResultRow.document))
        )
        rows = session.execute(wanted).all()
        if not rows:
            return
        last = rows[-1][0].id
        ids = [row[0].id for row in rows]
        points, made = _points(session, ids), _made(session, ids)
        excluded = queries.taken_out(session, ids)
        for row, spec, project, revision, revision_at, worker, ended_at in rows:
            stored = _Stored(
                row=row,
                spec=spec,
                project=project,
                job_revision=revision,
                revision_at=revision_at,
                worker=worker,
                ended_at=ended_at,
                points=points.get(row.id, {}),
                excluded=row.id in excluded,
                made=made.get(row.id, {}),
            )
            yield list(_result(session, stored))
        session.expunge_all()


def series_of_nobody(session: Session) -> Iterator[Breach]:
    """11: series that did not come with any result."""
    came = (
        select(models.Point.result_id)
        .join(models.ResultRow, models.ResultRow.id == models.Point.result_id)
        .where(
            models.Point.series_id == models.SeriesRow.id,
            models.ResultRow.received_at == models.SeriesRow.created_at,
        )
    )
    strange = select(models.SeriesRow.id).where(~came.exists())
    for name in session.scalars(strange.limit(100)):
        yield Breach(ROWS, f"series {name}", "No result came when it was made.")


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
        yield breach(ROWS, sentence)
    wanted = _wanted(stored, result)
    points = stored.points
    if points.keys() != wanted.keys():
        yield breach(6, f"It should have {len(wanted)} points in series and has {len(points)}.")
    for series in points.keys() & wanted.keys():
        for difference in _differences(stored, points[series], wanted[series]):
            yield breach(7, f"Its point in series {series} {difference}.")
    for sentence in _directions(stored, result):
        yield breach(ROWS, sentence)


def _document(row: models.ResultRow) -> bytes | None:
    try:
        return zlib.decompress(row.document)
    except zlib.error:
        return None


def _disagreements(stored: _Stored, result: contracts.Result) -> Iterator[str]:
    """Yield each way in which the row differs from its document, its job or its attempt."""
    row = stored.row
    told = {
        "status": (result.status.value, "document"),
        "reason": (result.reason, "document"),
        "case_key": (result.case.key, "document"),
        "measured_at": (result.measured_at, "document"),
        "environment": (record.facts_digest(result.environment.facts), "document"),
        "project": (stored.project, "job"),
        "revision": (stored.job_revision, "job"),
        "worker": (stored.worker, "attempt"),
    }
    if row.counted or row.turn is not None:
        told["received_at"] = (stored.ended_at, "attempt")
    for name, (wanted, whose) in told.items():
        if getattr(row, name) != wanted:
            yield f"Its {name} is {getattr(row, name)}; its {whose} says {wanted}."
    if not names_moment(row.id, row.received_at):
        yield f"It was not received at {row.received_at}, as its name tells."
    if not _same_verdict(row, result):
        yield "Its verdict is not the one of its document."
    spec = _spec(stored)
    if row.turn is not None and (row.counted or spec is None or not _is_turn(row.turn, spec)):
        yield f"It is turn {row.turn} of its job, which has none."
    try:
        if spec is not None:
            check_result(spec, result)
    except Invalid as error:
        yield f"It is not of its job's case: {error.detail}"


def _is_turn(turn: int, spec: contracts.JobSpec) -> bool:
    return spec.in_turn and 1 <= turn <= spec.protocol.replicates


def _same_verdict(row: models.ResultRow, result: contracts.Result) -> bool:
    try:
        kept = None if row.verdict is None else contracts.Verdict.model_validate(row.verdict)
    except ValidationError:
        return False
    return kept == result.verdict


def _spec(stored: _Stored) -> contracts.JobSpec | None:
    """Return the job's spec; None if it is missing or unreadable, which `agreement` reports."""
    try:
        return None if stored.spec is None else contracts.JobSpec.model_validate(stored.spec)
    except ValidationError:
        return None


def _wanted(stored: _Stored, result: contracts.Result) -> dict[str, dict[str, Any]]:
    """The points that a result makes, by series, whatever came before or after it."""
    row, spec = stored.row, _spec(stored)
    if spec is None or stored.revision_at is None:
        return {}
    if not (
        row.counted
        and spec.purpose is contracts.Purpose.HISTORY
        and result.status is contracts.Status.OK
    ):
        return {}
    place = types.Place(
        result_id=row.id,
        revision=row.revision,
        revision_at=stored.revision_at,
        measured_at=row.measured_at,
        environment=row.environment,
        worker=row.worker,
        disturbed=record.disturbed(result),
    )
    points = record.points_of(place, record.series_of(result, stored.project or ""))
    return {each["series_id"]: each for each in points}


def _points(session: Session, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for point in session.scalars(select(models.Point).where(models.Point.result_id.in_(ids))):
        found.setdefault(point.result_id, {})[point.series_id] = point
    return found


def _made(session: Session, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """The series that came with each of these results, and their directions."""
    wanted = (
        select(models.Point.result_id, models.SeriesRow.id, models.SeriesRow.direction)
        .join(models.SeriesRow, models.SeriesRow.id == models.Point.series_id)
        .join(models.ResultRow, models.ResultRow.id == models.Point.result_id)
        .where(
            models.Point.result_id.in_(ids),
            models.ResultRow.received_at == models.SeriesRow.created_at,
        )
    )
    found: dict[str, dict[str, str]] = {}
    for result_id, series, direction in session.execute(wanted):
        found.setdefault(result_id, {})[series] = direction
    return found


def _directions(stored: _Stored, result: contracts.Result) -> Iterator[str]:
    """A series points the way that its first result said; a later one cannot turn it."""
    samples: dict[str, contracts.Sample] = record.series_of(result, stored.project or "")
    for series, direction in stored.made.items():
        said = samples[series].direction.value if series in samples else None
        if said not in (None, direction):
            yield f"The series {series}, which it made, has the direction {direction}, not {said}."


def _differences(stored: _Stored, point: Any, wanted: dict[str, Any]) -> Iterator[str]:
    size = max(abs(wanted[name] or 0.0) for name in ("value", "low", "high"))
    for field, due in wanted.items():
        found = getattr(point, field)
        if found != due and not _close(found, due, size):
            yield f"has {field} {found} instead of {due}"
    if point.excluded != stored.excluded:
        said = "out of its history" if point.excluded else "in its history"
        yield f"is {said}, and the exclusions say otherwise"


def _close(found: Any, due: Any, size: float) -> bool:
    both = isinstance(found, float) and isinstance(due, float)
    return both and math.isclose(found, due, rel_tol=_CLOSE, abs_tol=_CLOSE * size)
