"""What must be true of each stored document and of the points that it makes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session, undefer

from benchmarks.contracts import JobSpec, Purpose, Result, Status
from service import results
from service.models import Job, Point, ResultRow, Revision
from service.verify.reading import history_of
from service.verify.values import Breach

BATCH = 16
"""Documents in memory at once: each may have many megabytes."""
_PLACE = ("revision", "revision_at", "measured_at")


def every_result(session: Session) -> Iterator[Sequence[Breach]]:
    """What is wrong with each result, the oldest first."""
    last = ""
    fields = (ResultRow, Job.spec, Job.project, Revision.ordered_at)
    while True:
        wanted = (
            select(*fields)
            .outerjoin(Job, Job.id == ResultRow.job_id)
            .outerjoin(Revision, Revision.name == ResultRow.revision)
            .where(ResultRow.id > last)
            .order_by(ResultRow.id)
            .limit(BATCH)
            .options(undefer(ResultRow.document))
        )
        rows = session.execute(wanted).all()
        if not rows:
            return
        last = rows[-1][0].id
        points = _points(session, [row[0].id for row in rows])
        for row, spec, project, revision_at in rows:
            points_of = partial(_wanted, row, spec, project, revision_at)
            yield list(_result(session, row, points_of, points.get(row.id, {})))
        session.expunge_all()


def points_of_nothing(session: Session) -> Iterator[Breach]:
    """6: points whose result does not exist."""
    orphans = (
        select(func.count())
        .select_from(Point)
        .outerjoin(ResultRow, ResultRow.id == Point.result_id)
        .where(ResultRow.id.is_(None))
    )
    count = session.execute(orphans).scalar_one()
    if count:
        yield Breach(6, "series", f"{count} points have no result.")


def _result(
    session: Session,
    row: ResultRow,
    points_of: Callable[[Result], dict[str, Any]],
    points: dict[str, Any],
) -> Iterator[Breach]:
    def breach(promise: int, sentence: str) -> Breach:
        log = history_of(session, row.job_id)
        return Breach(promise, f"job {row.job_id}, result {row.id}", sentence, log)

    document = _document(row)
    if document is None or results.digest_of(document) != row.digest:
        yield breach(2, "Its document is not what was answered for: the digest differs.")
        return
    try:
        result = Result.model_validate_json(document)
    except ValidationError:
        yield breach(2, "Its document is no Result that this version can read.")
        return
    wanted = points_of(result)
    if points.keys() != wanted.keys():
        yield breach(6, f"It should have {len(wanted)} points in series and has {len(points)}.")
    for series in points.keys() & wanted.keys():
        for difference in _differences(points[series], wanted[series]):
            yield breach(7, f"Its point in series {series} {difference}.")


def _document(row: ResultRow) -> bytes | None:
    try:
        return zlib.decompress(row.document)
    except zlib.error:
        return None


def _wanted(
    row: ResultRow, spec: Any, project: str, revision_at: Any, result: Result
) -> dict[str, Any]:
    """The points that a result makes, by series, whatever came before or after it."""
    if spec is None or revision_at is None:
        return {}
    for_history = JobSpec.model_validate(spec).purpose is Purpose.HISTORY
    if not (row.counted and for_history and result.status is Status.OK):
        return {}
    place = results.Place(
        result_id=row.id,
        revision=row.revision,
        revision_at=revision_at,
        measured_at=row.measured_at,
        environment=row.environment,
        worker=row.worker,
    )
    points = results.points_of(place, results.series_of(result, project))
    return {each["series_id"]: each for each in points}


def _points(session: Session, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for point in session.scalars(select(Point).where(Point.result_id.in_(ids))):
        found.setdefault(point.result_id, {})[point.series_id] = point
    return found


def _differences(point: Any, wanted: dict[str, Any]) -> Iterator[str]:
    for field in _PLACE:
        if getattr(point, field) != wanted[field]:
            yield f"stands at {field} {getattr(point, field)} instead of {wanted[field]}"
    if not math.isclose(point.value, wanted["value"], rel_tol=1e-9):
        yield f"is {point.value} and its samples give {wanted['value']}"
