"""The pages of series: their history, how it is analysed, and every point of it."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse
from sqlalchemy.orm import Session

from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.dashboard import (
    cases,
    environments,
    figures,
    finding_data,
    queries,
    rendering,
    series_changes,
)
from service.dashboard.query_params import HistoryAddress
from service.findings import failing_by_series
from service.findings.threshold_table import load_threshold
from service.history import annotation_table
from service.history.compare import Known
from service.history.description import describe
from service.history.failing import failing_cases
from service.history.queries import load_series, with_latest
from service.history.run_noise import spreads_of
from service.outbox.sinks import NOBODY, Sinks
from service.schemas.annotations import AnnotationView
from service.schemas.series import Series

router = rendering.page_router(rendering.COUNTED)

POINTS_PER_PAGE = 50
OFFERED = 50
"""Newest revisions about which the page offers to write something."""
_CSV_COLUMNS = (
    "revision",
    "revision_at",
    "measured_at",
    "value",
    "low",
    "high",
    "interval",
    "replicates",
    "worker",
    "environment",
    "result_id",
)
CSV_HEAD = (*_CSV_COLUMNS, "metric", "unit", "excluded", "disturbed", "annotations")


@router.get("/series/{series_id}")
@Permission.READ.required
def show_series(
    request: Request,
    session: Reading,
    now: Now,
    series_id: str,
    at: Annotated[HistoryAddress, Query()],
) -> HTMLResponse:
    """Show one series' history: chart, environment changes, every point."""
    most = None if at.last == "all" else int(at.last)
    series = load_series(session, series_id, newest=most)
    changed = series_changes.environments_of(session, series.points)
    newest_first = series.points[::-1]
    pages = max(math.ceil(len(newest_first) / POINTS_PER_PAGE), 1)
    at = at.model_copy(update={"page": min(at.page, pages)})
    siblings = queries.siblings(session, series)
    changes = series_changes.changes_of(session, series)
    analysed = series_changes.analysed(session, series, changes, changed)
    beside = annotations_beside(session, series)
    (recent,) = with_latest(session, [series], 2)
    analysed = replace(analysed, annotations=beside)
    return rendering.render(
        request,
        "series.html",
        now=now,
        at=at,
        series=series,
        latest=recent.points[-1] if recent.points else None,
        total=queries.count_points(session, series_id),
        figure=figures.history(series, at.view, analysed),
        level_changes=changes[::-1],
        annotations=beside,
        places=list(dict.fromkeys(point.revision for point in newest_first))[:OFFERED],
        analysis=describe(session, series),
        watched=series.is_watched,
        threshold=load_threshold(session, series),
        reasons=analysed.reasons,
        changes=changed.changes,
        restless=changed.restless,
        many_workers=len({point.worker for point in series.points}) > 1,
        shown=environments.SHOWN,
        facts_shown=environments.FACTS_SHOWN,
        change=cases.change(recent, Known(spreads_of(session, [series_id]))),
        rows=newest_first[(at.page - 1) * POINTS_PER_PAGE : at.page * POINTS_PER_PAGE],
        pages=pages,
        siblings=siblings,
        marks=finding_data.marks(session, [series_id]).get(series_id, ()),
        failing=failing_cases(session, now).get(cases.id_of(series)),
        told=failing_by_series(session),
        several=Counter(one.metric for one in siblings),
        address=_address(request),
    )


@router.get("/series/{series_id}/points.csv")
@Permission.READ.required
def download_points(session: Reading, series_id: str) -> PlainTextResponse:
    """Give every point of a series as CSV, in base units."""
    series = load_series(session, series_id)
    named = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{series.case.workload}-{series.metric}")[:100]
    name = f"{named}-{series.id[:8]}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    text = csv_of(series, annotations_beside(session, series))
    return PlainTextResponse(text, media_type="text/csv", headers=headers)


def annotations_beside(session: Session, series: Series) -> list[AnnotationView]:
    """Load the annotations of a history, from its first point on."""
    since = series.points[0].revision_at if series.points else None
    return annotation_table.beside(session, [series.project], since)


def _address(request: Request) -> str:
    """Where others find this service: as the outbox's file says it, or as this reader did."""
    sinks: Sinks = request.app.state.sinks
    return str(request.base_url).rstrip("/") if sinks is NOBODY else sinks.address


def csv_of(series: Series, beside: Sequence[AnnotationView] = ()) -> str:
    """Write a series' points as CSV, oldest first, values in the series' base unit."""
    return written([CSV_HEAD, *csv_rows(series, beside)])


def csv_rows(series: Series, beside: Sequence[AnnotationView] = ()) -> Iterator[tuple[object, ...]]:
    """Give the cells of each point of a series, oldest first.

    An annotation stands beside the first point at or after its place.
    """
    left = deque(beside)
    for point in series.points:
        cells = [getattr(point, column) for column in _CSV_COLUMNS]
        cells[1:3] = [point.revision_at.isoformat(), point.measured_at.isoformat()]
        excluded = str(point.excluded).lower()
        said = []
        while left and left[0].at <= point.revision_at:
            said.append(left.popleft().text)
        names = map(no_formula, (series.metric, series.unit))
        yield *cells, *names, excluded, point.disturbed, no_formula("; ".join(said))


def written(rows: Iterable[Iterable[object]]) -> str:
    """Write rows as CSV."""
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def no_formula(text: str) -> str:
    """Keep a spreadsheet from taking a stranger's text for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
