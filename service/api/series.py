"""Histories: one metric of one case on comparable hardware."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import Query, Response

from benchmarks import contracts
from service.api import dependencies
from service.api.router import Noun
from service.auth.permissions import Permission
from service.history import imports, queries
from service.history.description import AnalysisView, describe
from service.http.strict_route import Plain
from service.schemas import series
from service.schemas.jobs import Listing
from service.schemas.measured_elsewhere import ForeignPoint

router = Noun("/series", "series")


@router.get("")
@Permission.READ.required
def list_series(
    session: dependencies.DatabaseSession,
    metric: contracts.Line | None = None,
    workload: contracts.Line | None = None,
    case: contracts.Line | None = None,
    project: contracts.Name | None = None,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 100,
) -> Listing[series.Series]:
    """List series by case and metric, without their points; `case` is a case's key.

    `workload` is also the name of a benchmark that another tool measured.
    """
    filters = {"metric": metric, "workload": workload, "case": case, "project": project}
    page = queries.list_series(session, **filters, after=cursor, limit=limit)
    return Listing.of(page)


@router.get("/{series_id}", responses=router.problems(404))
@Permission.READ.required
def read_series(series_id: dependencies.Id, session: dependencies.DatabaseSession) -> series.Series:
    """Read a series with all its points, by revision and then by time of measurement.

    A point whose `disturbed` names flags is neither analysed nor compared.
    """
    return queries.load_series(session, series_id)


@router.get(
    "/{series_id}/points",
    response_model=Listing[series.SeriesPoint],
    responses=router.problems(404),
)
@Permission.READ.required
def list_points(
    series_id: dependencies.Id,
    session: dependencies.DatabaseSession,
    cursor: dependencies.Cursor = None,
    limit: Annotated[int, Query(ge=1, le=10_000), Plain] = 1_000,
) -> Response:
    """List the points of a series, by revision and then by time of measurement."""
    page = queries.page_of_points(session, series_id, after=cursor, limit=limit)
    return Response(orjson.dumps(page), media_type="application/json")


@router.get("/{series_id}/export", responses=router.problems(404))
@Permission.READ.required
def export_points(
    series_id: dependencies.Id,
    session: dependencies.DatabaseSession,
    cursor: dependencies.Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1_000), Plain] = 1_000,
) -> Listing[ForeignPoint]:
    """List the points of a series that count, in the form in which points are imported.

    Those that were imported are as they came. A measured one has its value and its interval, not
    its samples.
    """
    return Listing.of(imports.export(session, series_id, after=cursor, limit=limit))


@router.get("/{series_id}/analysis", responses=router.problems(404))
@Permission.READ.required
def read_analysis(
    series_id: dependencies.Id, session: dependencies.DatabaseSession
) -> AnalysisView:
    """Read where a series' level changed, its noise, and what it can and cannot show.

    `one_percent` says how many processes would show a change of 1 %.
    """
    return describe(session, queries.load_series(session, series_id))
