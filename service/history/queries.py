"""Reads results and series."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Label,
    Select,
    Tuple,
    and_,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
    tuple_,
)
from sqlalchemy.orm import Session, aliased, undefer

from benchmarks import contracts
from benchmarks.contracts.bounds import without_traces
from service import models
from service.analysis.gate.pairs import software_of
from service.database import paging
from service.database.session import found, pairs
from service.history.types import Failure, ResultSummary, StoredResult
from service.models import EnvironmentRow, Exclusion, Job, Point, ResultRow, SeriesRow
from service.schemas.errors import NotFound
from service.schemas.series import ImportedCase, Series, SeriesName, SeriesPoint

BATCH = 16
"""Documents that are read from the database at once."""
WORKER = func.coalesce(Point.worker, "").label("worker")
"""The worker of a point; empty where it was imported."""
_POINT = (
    Point.result_id,
    Point.revision,
    Point.revision_at,
    Point.measured_at,
    Point.value,
    Point.low,
    Point.high,
    Point.interval,
    Point.replicates,
    Point.environment,
    WORKER,
    Point.excluded,
    Point.disturbed,
    Point.within,
)
COUNTED = (Point.excluded.is_(False), Point.disturbed == "")
"""Points that are analysed and compared, as `SeriesPoint.counts` says it."""
POINT_ORDER = (Point.revision_at, Point.revision, Point.measured_at, Point.result_id)
NEWEST_FIRST = tuple(column.desc() for column in POINT_ORDER)


def load_series(
    session: Session, series_id: str, *conditions: ColumnElement[bool], newest: int | None = None
) -> Series:
    """One series with its points: those that meet ``conditions``, and of these the ``newest``.

    Raises:
        NotFound: there is no such series.
    """
    row = found(session, SeriesRow, series_id)
    chosen = (Point.series_id == series_id, *conditions)
    if newest is None:
        return _series(row, points_where(session, *chosen))
    last = select(*_POINT).where(*chosen).order_by(*NEWEST_FIRST)
    points = [SeriesPoint(*point) for point in session.execute(last.limit(newest))]
    return _series(row, points[::-1])


def since_before(
    session: Session, series_id: str, at: datetime, most: int
) -> tuple[ColumnElement[bool], ...]:
    """Conditions on the points of a series from ``most`` before ``at`` on."""
    before = select(Point.revision_at).where(Point.series_id == series_id, Point.revision_at < at)
    newest_first = before.order_by(Point.revision_at.desc())
    first = session.scalars(newest_first.offset(most).limit(1)).first()
    return () if first is None else (Point.revision_at >= first,)


def list_series(
    session: Session,
    *,
    metric: str | None = None,
    workload: str | None = None,
    case: str | None = None,
    project: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> paging.Page[Series]:
    """Series without their points, by case, metric and id; ``after`` is the previous cursor."""
    order = (SeriesRow.case_key, SeriesRow.metric, SeriesRow.id)
    query = _some_series(metric, workload).order_by(*order).limit(limit + 1)
    query = query.where(*paging.matching({SeriesRow.case_key: case, SeriesRow.project: project}))
    if after is not None:
        query = query.where(tuple_(*order) > tuple_(*paging.keys(after, 3)))
    rows = session.scalars(query).all()
    more = rows[limit - 1] if len(rows) > limit else None
    return paging.Page(
        tuple(_series(row) for row in rows[:limit]),
        paging.cursor(more.case_key, more.metric, more.id) if more else None,
    )


def page_of_points(
    session: Session, series_id: str, *, after: str | None = None, limit: int = 1_000
) -> paging.Page[SeriesPoint]:
    """A part of one series' history, in its order.

    Raises:
        NotFound: there is no such series.
    """
    found(session, SeriesRow, series_id)
    query = (
        select(*_POINT).where(Point.series_id == series_id).order_by(*POINT_ORDER).limit(limit + 1)
    )
    if after is not None:
        query = query.where(tuple_(*POINT_ORDER) > after_point(after))
    points = [SeriesPoint(*row) for row in session.execute(query)]
    last = points[limit - 1] if len(points) > limit else None
    return paging.Page(tuple(points[:limit]), cursor_of(last) if last else None)


def points_of_results(
    session: Session, series_id: str, result_ids: Sequence[str]
) -> list[SeriesPoint]:
    """Those points of a series that are of these results, in the order of its history."""
    points = []
    for some in paging.batched(result_ids):
        of_these = Point.result_id.in_(some)
        points += points_where(session, Point.series_id == series_id, of_these)
    return sorted(points, key=lambda p: (p.revision_at, p.revision, p.measured_at, p.result_id))


def points_where(session: Session, *conditions: ColumnElement[bool]) -> list[SeriesPoint]:
    """The points that meet ``conditions``, in the order of histories."""
    rows = session.execute(select(*_POINT).where(*conditions).order_by(*POINT_ORDER))
    return [SeriesPoint(*row) for row in rows]


def usual_metric(session: Session) -> str:
    """Name throughput; where no series has it, as where all is imported, the commonest metric."""
    usual, row = "throughput", SeriesRow
    often = select(row.metric).group_by(row.metric)
    ranked = often.order_by((row.metric == usual).desc(), func.count().desc(), row.metric)
    return session.scalars(ranked.limit(1)).first() or usual


def latest_of_each_series(
    session: Session, metric: str, last: int = 30, most: int = 1_000
) -> list[Series]:
    """The series of ``metric`` with their ``last`` newest revisions, oldest of them first.

    As `newest_series` chooses them and `with_latest` reads them.
    """
    return with_latest(session, newest_series(session, metric, most), last)


def newest_series(session: Session, metric: str, most: int = 1_000) -> list[Series]:
    """The series of ``metric`` by case, without their points.

    Of more than ``most`` series those with the newest revisions are given: a node that calls itself
    otherwise in each process would begin a series with each.
    """
    newest = select(func.max(Point.revision_at)).where(Point.series_id == SeriesRow.id)
    by_age = (newest.scalar_subquery().desc().nulls_last(), SeriesRow.id)
    rows = session.scalars(_some_series(metric, None).order_by(*by_age).limit(most)).all()
    return [_series(row) for row in sorted(rows, key=lambda row: (row.case_key, row.id))]


def with_latest(session: Session, series: Sequence[Series], last: int) -> list[Series]:
    """These series with their ``last`` newest revisions, oldest of them first.

    Each has one point, that of the measurement which a comparison takes as well. What is excluded
    or disturbed is in none.
    """
    points: dict[str, list[SeriesPoint]] = {one.id: [] for one in series}
    if points:
        places = _newest_revisions(list(points), last)
        for series_id, *point in session.execute(_soundest_of(places)):
            points[series_id].append(SeriesPoint(*point))
    return [replace(one, points=tuple(points[one.id])) for one in series]


_RECENT = (
    select(Point.revision_at, Point.value)
    .where(Point.series_id == bindparam("series"), *COUNTED)
    .order_by(*NEWEST_FIRST)
    .limit(bindparam("most"))
)


def recent_values(session: Session, series_id: str, most: int) -> list[tuple[datetime, float]]:
    """The newest ``most`` values of a series with their places in the order of revisions.

    Oldest first; what is excluded or disturbed is left out.
    """
    rows = session.execute(_RECENT, {"series": series_id, "most": most})
    return [(at, value) for at, value in rows][::-1]


def values_around(
    session: Session, series_id: str, ends: tuple[datetime, datetime], most: int
) -> tuple[list[float], list[float]]:
    """Counted values up to one place in the order of revisions, and from another one on.

    Each list has at most ``most`` values, those nearest to its end; oldest first.
    """
    values = select(Point.value).where(Point.series_id == series_id, *COUNTED).limit(most)
    before = values.where(Point.revision_at <= ends[0]).order_by(*NEWEST_FIRST)
    after = values.where(Point.revision_at >= ends[1]).order_by(*POINT_ORDER)
    return [*session.scalars(before)][::-1], [*session.scalars(after)]


def newest_of(session: Session, series_ids: Sequence[str]) -> list[Series]:
    """Those of these series that there are, by case; each with its newest point, if it has one.

    The point is the one that `latest_of_each_series` gives, found by two looks into the index.
    """
    rows = session.scalars(select(SeriesRow).where(SeriesRow.id.in_(series_ids))).all()
    there = aliased(Point)
    revision_at, revision = _newest_place(Point.series_id == SeriesRow.id)
    query = (
        select(there.series_id, *(getattr(there, column.key) for column in _POINT))
        .join(SeriesRow, SeriesRow.id == there.series_id)
        .where(there.revision_at == revision_at.element, there.revision == revision.element)
        .where(SeriesRow.id.in_(series_ids), there.excluded.is_(False), there.disturbed == "")
        .order_by(_sound(there), there.measured_at, there.result_id)
    )
    newest = {series_id: SeriesPoint(*point) for series_id, *point in session.execute(query)}
    in_order = sorted(rows, key=lambda row: (row.case_key, row.id))
    return [_series(row, [newest[row.id]] if row.id in newest else ()) for row in in_order]


def points_of_revisions(session: Session, metric: str, revisions: Sequence[str]) -> list[Series]:
    """Every series of ``metric`` that has a point at one of ``revisions``, with those points."""
    query = (
        select(SeriesRow, *_POINT)
        .join(Point, Point.series_id == SeriesRow.id)
        .where(SeriesRow.metric == metric, Point.revision.in_(revisions))
        .order_by(SeriesRow.case_key, SeriesRow.id, *POINT_ORDER)
    )
    rows: dict[str, SeriesRow] = {}
    points: dict[str, list[SeriesPoint]] = {}
    for row, *point in session.execute(query):
        rows[row.id] = row
        points.setdefault(row.id, []).append(SeriesPoint(*point))
    return [_series(row, points[row.id]) for row in rows.values()]


def failures_of_revisions(session: Session, revisions: Sequence[str]) -> list[Failure]:
    """Find the failures at these revisions, which make no point, the newest first."""
    query = (
        select(*(Job.spec, Job.project, ResultRow.revision, ResultRow.status, EnvironmentRow.facts))
        .join(Job, Job.id == ResultRow.job_id)
        .join(EnvironmentRow, EnvironmentRow.digest == ResultRow.environment)
        .where(ResultRow.revision.in_(revisions), ResultRow.counted)
        .where(ResultRow.status != contracts.Status.OK)
        .order_by(ResultRow.id.desc())
    )
    return [
        Failure(
            contracts.Case.model_validate(spec["case"]),
            revision,
            status,
            contracts.Environment(facts=facts).comparability(),
            project,
        )
        for spec, project, revision, status, facts in session.execute(query)
        if spec.get("purpose", contracts.Purpose.HISTORY) == contracts.Purpose.HISTORY
    ]


def load_result(session: Session, result_id: str) -> StoredResult:
    """One result, whole.

    Raises:
        NotFound: there is no such result.
    """
    row = found(session, ResultRow, result_id, options=[undefer(ResultRow.document)])
    return stored_of(row)


def counted_results(
    session: Session, job_ids: Sequence[str], *, traces: bool = False
) -> dict[str, StoredResult]:
    """The counted result of each of these jobs, by job; without its ``traces`` unless asked for.

    Few documents are in memory at a time: a submission may have hundreds of many megabytes.
    """
    by_job = {}
    query = select(ResultRow).where(ResultRow.counted).options(undefer(ResultRow.document))
    for some in paging.batched(job_ids, BATCH):
        for row in session.scalars(query.where(ResultRow.job_id.in_(some))):
            one = stored_of(row)
            if not traces:
                one = replace(one, result=without_traces(one.result))
            by_job[row.job_id] = one
    return by_job


def taken_out(session: Session, result_ids: Sequence[str]) -> dict[str, str]:
    """Those of these results that somebody took out of their histories, with the reasons."""
    out = select(Exclusion.result_id, Exclusion.reason).where(
        Exclusion.result_id.in_(result_ids), Exclusion.undone_at.is_(None)
    )
    return pairs(session, out)


def list_results(
    session: Session, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> paging.Page[ResultSummary]:
    """Results that meet ``conditions``, the last to arrive first."""
    page = paging.newest_first(session, ResultRow, ResultRow.id, conditions, after, limit)
    return page.shown(ResultSummary(**row.fields_of(ResultSummary)) for row in page.items)


def load_environment(session: Session, digest: str) -> dict[str, str]:
    """The facts of an environment.

    Raises:
        NotFound: there is no such environment.
    """
    row = session.get(models.EnvironmentRow, digest)
    if row is None:
        raise NotFound("There is no such environment; a result's `environment` names one.")
    return row.facts


def facts_of(session: Session, environments: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read the facts of a few environments, by digest."""
    query = select(EnvironmentRow.digest, EnvironmentRow.facts)
    return pairs(session, query.where(EnvironmentRow.digest.in_(sorted(set(environments)))))


def code_of(session: Session, environments: Sequence[str]) -> dict[str, str]:
    """Give the digest of the software in each of these environments, by the environment's digest.

    An environment without code of the benchmarks, which every measuring process names, is left out.
    """
    every = facts_of(session, environments)
    return {
        digest: software_of(facts) for digest, facts in every.items() if "sw.benchmarks" in facts
    }


def cursor_of(point: SeriesPoint | Point) -> str:
    """The place of a point in a history, from which a next page goes on."""
    return paging.cursor(
        point.revision_at.isoformat(),
        point.revision,
        point.measured_at.isoformat(),
        point.result_id,
    )


def after_point(after: str) -> Tuple:
    """Read a `cursor_of`, to compare with `POINT_ORDER`."""
    revision_at, revision, measured_at, result_id = paging.keys(after, 4)
    return tuple_(
        literal(paging.instant(revision_at), models.UtcDateTime()),
        literal(revision),
        literal(paging.instant(measured_at), models.UtcDateTime()),
        literal(result_id),
    )


def _some_series(metric: str | None, workload: str | None) -> Select[SeriesRow]:
    query = select(SeriesRow)
    if metric is not None:
        query = query.where(SeriesRow.metric == metric)
    if workload is not None:
        # A user's own workload may begin with another's name: `resnet50:train` is no `resnet50`.
        # No axis and no value has a colon, so after the name there is one, before the preset.
        preset = func.substr(SeriesRow.case_key, len(workload) + 2)
        named = SeriesRow.case_key.startswith(f"{workload}:", autoescape=True)
        measured = and_(SeriesRow.source == "", named, preset.not_like("%:%"))
        benchmark = SeriesRow.case["workload"].as_string() == workload
        query = query.where(or_(measured, and_(SeriesRow.source != "", benchmark)))
    return query


def _newest_revisions(series: Sequence[str], last: int) -> CTE:
    """Places in the history of each series: one look into the index each, however long it is."""
    series_id, number = SeriesRow.id.label("series_id"), literal(1).label("number")
    first = select(series_id, *_newest_place(Point.series_id == SeriesRow.id), number)
    newest = first.where(SeriesRow.id.in_(series)).cte("newest", recursive=True)
    before = tuple_(Point.revision_at, Point.revision) < tuple_(
        newest.c.revision_at, newest.c.revision
    )
    further = select(
        newest.c.series_id,
        *_newest_place(Point.series_id == newest.c.series_id, before),
        newest.c.number + 1,
    )
    return newest.union_all(
        further.where(newest.c.number < last, newest.c.revision.is_not(None))  # None: no older one
    )


def _newest_place(*conditions: ColumnElement[bool]) -> tuple[Label[datetime], Label[str]]:
    newest = (Point.revision_at.desc(), Point.revision.desc())
    revision_at, revision = (
        select(column).where(*conditions, *COUNTED).order_by(*newest).limit(1).scalar_subquery()
        for column in (Point.revision_at, Point.revision)
    )
    return revision_at.label("revision_at"), revision.label("revision")


def _soundest_of(places: CTE) -> Select[Any]:
    """One point at each place, in their order: the choice of `service.history.compare.compare`."""
    rank = func.row_number().over(
        partition_by=(Point.series_id, Point.revision),
        order_by=(_sound(Point).desc(), Point.measured_at.desc(), Point.result_id.desc()),
    )
    here = and_(
        Point.series_id == places.c.series_id,
        Point.revision_at == places.c.revision_at,
        Point.revision == places.c.revision,
    )
    ranked = select(Point.series_id, *_POINT, rank.label("rank")).join(places, here)
    counted = ranked.where(*COUNTED).subquery()
    query = select(*(column for column in counted.c if column.name != "rank"))
    return query.where(counted.c.rank == 1).order_by(
        counted.c.series_id, counted.c.revision_at, counted.c.revision
    )


def _sound(of: type[Point]) -> ColumnElement[int]:
    return case((of.interval == "replicates", of.replicates), else_=0)


def name_of(row: SeriesRow) -> SeriesName:
    """Read the identity of a series out of its row."""
    return SeriesName(**_identity(row))


def _series(row: SeriesRow, points: Iterable[SeriesPoint] = ()) -> Series:
    return Series(**_identity(row), points=tuple(points))


def _identity(row: SeriesRow) -> dict[str, Any]:
    kind = ImportedCase if row.source else contracts.Case
    typed = {"case": kind.model_validate(row.case), "direction": contracts.Direction(row.direction)}
    return row.fields_of(SeriesName) | typed


def stored_of(row: ResultRow) -> StoredResult:
    """Read a stored result out of its row, with the document."""
    result = contracts.Result.model_validate_json(zlib.decompress(row.document))
    return StoredResult(**row.fields_of(StoredResult), parts=(row.id,), result=result)
