"""The explorer: the histories of any series together, from whole months to two single points."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

import orjson
from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from sqlalchemy.orm import Session

from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.dashboard import (
    explored_lines,
    facets,
    figures,
    point_panel,
    queries,
    rendering,
    series_changes,
    series_pages,
)
from service.dashboard.explored_lines import ExploredLine
from service.dashboard.figures.segments import MOST_LABELS
from service.dashboard.query_params import ExploreAddress
from service.history import annotation_table, revisions
from service.history import explored as history
from service.history.explored import HistoryPart
from service.history.queries import newest_of
from service.models import Revision
from service.schemas.annotations import AnnotationView
from service.schemas.errors import Invalid, UnknownChoice
from service.schemas.series import Series, SeriesName
from service.wording import formats

router = rendering.page_router(rendering.COUNTED)

MOST_ROWS = 250_000
"""Points in one file; a series' own page has all of its points, however many."""
OFFERED = 20
"""Revisions that are offered while somebody types."""
WIDE_ENOUGH, MOST_COLUMNS = 420, 3
"""Pixels that a panel needs, and panels beside each other at most."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The series that an address names, and the part of their history."""

    every: list[SeriesName]
    """Of the chosen metrics."""
    series: list[SeriesName]
    matches: int
    part: HistoryPart
    shared: list[str]
    names: dict[str, str]
    """What tells each series apart, by id."""
    faults: list[str]


def choose(session: Session, at: ExploreAddress) -> Chosen:
    """Find the series and the part of their history that an address names."""
    every = history.series_of_metrics(session, at.metric or (facets.METRIC,))
    known = {one.id: one for one in (*every, *history.named_series(session, at.series))}
    matches = facets.matching(known.values(), at)
    shown, faults = matches[: facets.MOST_SHOWN], []
    since, until = at.since, at.until
    try:
        if at.first:
            made_at = _made_at(session, at.first)
            since = max(made_at, since or made_at)
        if at.last:
            made_at = _made_at(session, at.last)
            until = min(made_at, until or made_at)
    except UnknownChoice as error:
        faults.append(error.detail)
    shared, names = facets.shared_and_own(shown)
    part = HistoryPart(since, until, at.worker)
    return Chosen(every, shown, len(matches), part, shared, names, faults)


def _made_at(session: Session, name: str) -> datetime:
    made_at: datetime = session.get_one(Revision, revisions.find(session, name)).ordered_at
    return made_at


@router.get("/explore")
@Permission.READ.required
def show_explorer(
    request: Request, session: Reading, now: Now, at: Annotated[ExploreAddress, Query()]
) -> HTMLResponse:
    """Show the histories of the chosen series together, and the point that was clicked on."""
    chosen = choose(session, at)
    ids = [one.id for one in chosen.series]
    panel = point_panel.load_panel(session, at.point) if at.point else None
    other = point_panel.load_panel(session, at.other) if at.other else None
    return rendering.render(
        request,
        "explore.html",
        now=now,
        at=at,
        none_chosen=ExploreAddress(),
        chosen=chosen,
        options=facets.options(chosen.every, at),
        metrics=[one for one in queries.metrics(session) if one not in at.metric],
        workers=[name for name in queries.worker_names(session) if name not in at.worker],
        revisions=queries.revisions(session, OFFERED),
        newest={one.id: one.points[-1] for one in newest_of(session, ids) if one.points},
        changes={one.id: series_changes.changes_of(session, one) for one in chosen.series},
        most=facets.MOST_SHOWN,
        panel=panel,
        pair=point_panel.load_pair(session, panel, other) if panel and other else None,
        against=figures.AGAINST,
    )


@router.get("/explore/figure")
@Permission.READ.required
def draw_series(
    request: Request,
    session: Reading,
    at: Annotated[ExploreAddress, Query()],
    width: Annotated[int, Query(ge=0, le=20_000)] = 1_200,
) -> Response:
    """Give the figure of the chosen series as JSON, and what is to be said of it."""
    chosen = choose(session, at)
    lines = explored_lines.lines(session, chosen.series, chosen.part, at.base)
    changed = explored_lines.changed_for_all(session, lines)
    marks = changed[:MOST_LABELS]
    scene = replace(
        _scene(session, chosen, lines, at),
        columns=max(1, min(MOST_COLUMNS, width // WIDE_ENOUGH, len(lines))),
        marks=[(one.before, one.after, explored_lines.briefly(one)) for one in marks],
    )
    drawn = [line.drawn for line in lines]
    said = enumerate(scene.annotations, start=1)
    body = orjson.dumps(
        figures.explored(drawn, scene, str(request.url))
        | {
            "said": [
                explored_lines.counted(chosen.series, lines),
                *explored_lines.left_out(drawn, scene),
                *map(explored_lines.in_words, marks),
                *(f"✎{number} {one.at:%Y-%m-%d}, {one.actor}: {one.text}" for number, one in said),
            ]
        }
    )
    headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = gzip.compress(body, 1, mtime=0), "gzip"
    return Response(body, media_type="application/json", headers=headers)


def _scene(
    session: Session, chosen: Chosen, lines: Sequence[ExploredLine], at: ExploreAddress
) -> figures.Scene:
    """What all series share in their chart; in unlike units they have only shares in common."""
    shown = [line.drawn.series for line in lines]
    unlike = not at.panels and len({series.unit for series in shown}) > 1
    ids = [series.id for series in shown]
    return figures.Scene(
        x=at.x,
        panels=at.panels,
        against=at.against or ("first" if unlike else ""),
        base=at.base,
        order=history.places(session, ids, chosen.part) if at.x == "order" else (),
        annotations=_beside(session, shown, chosen.part)[-MOST_LABELS:],
        names=chosen.names,
        titles=explored_lines.titles(session, [point for one in shown for point in one.points]),
    )


def _beside(session: Session, shown: Sequence[Series], part: HistoryPart) -> list[AnnotationView]:
    """Load the annotations of these histories, from their first point on."""
    began = min((point.revision_at for one in shown for point in one.points), default=None)
    if began is None:
        return []
    projects = {series.project for series in shown}
    return annotation_table.beside(session, projects, began, part.until)


@router.get("/explore/points.csv")
@Permission.READ.required
def download_series(session: Reading, at: Annotated[ExploreAddress, Query()]) -> PlainTextResponse:
    """Give every point of the chosen series in the chosen part of their history as CSV.

    Raises:
        Invalid: they are more than fit a file.
    """
    chosen = choose(session, at)
    count = history.count_points(session, [one.id for one in chosen.series], chosen.part)
    if count > MOST_ROWS:
        raise Invalid(f"These are {count:,} points, and a file has {MOST_ROWS:,}: choose fewer.")
    rows: list[tuple[object, ...]] = [("series", "case", "hardware", *series_pages.CSV_HEAD)]
    for one in chosen.series:
        said = map(series_pages.no_formula, (one.case.key, formats.hardware(one.comparability)))
        name = (one.id, *said)
        series = Series.of(one, history.points_in(session, one.id, chosen.part))
        beside = series_pages.annotations_beside(session, series)
        rows += [name + row for row in series_pages.csv_rows(series, beside)]
    headers = {"Content-Disposition": 'attachment; filename="explored.csv"'}
    return PlainTextResponse(series_pages.written(rows), media_type="text/csv", headers=headers)


@router.get("/explore/revisions")
@Permission.READ.required
def offer_revisions(
    request: Request,
    session: Reading,
    now: Now,
    first: Annotated[str, Query(max_length=500)] = "",
    last: Annotated[str, Query(max_length=500)] = "",
) -> HTMLResponse:
    """Give the newest revisions with a text in name, title or author, for whoever types it."""
    found = queries.revisions(session, OFFERED, first or last)
    return rendering.render(request, "_revisions.html", now=now, revisions=found)
