"""The page of the matrix: every case beside the others, and the way to the fastest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric
from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.dashboard import (
    cases,
    figures,
    finding_data,
    interactions,
    labels,
    matrix,
    queries,
    rendering,
)
from service.dashboard.cases import CaseGroup
from service.dashboard.query_params import MatrixAddress
from service.findings import failing_by_series
from service.history import revisions
from service.history.failing import failing_cases
from service.history.queries import newest_of, newest_series, points_of_revisions
from service.history.run_noise import spreads_of
from service.schemas.errors import UnknownChoice
from service.schemas.series import Series, SeriesPoint
from service.wording import formats

router = rendering.page_router(rendering.COUNTED)

MOST_SERIES = 1_000
METRIC = "throughput"
COSTS = {"memory": "peak_memory", "energy": "energy_per_item"}


@router.get("/matrix")
@Permission.READ.required
def show_matrix(
    request: Request, session: Reading, now: Now, at: Annotated[MatrixAddress, Query()]
) -> HTMLResponse:
    """Show the newest value of every case as a heat map, effects, a ladder and a front."""
    shown = COSTS["memory"] if at.show == "memory" else METRIC
    series, hardwares = _newest(session, shown, at.hardware)
    at = at.model_copy(update={"hardware": at.hardware or next(iter(hardwares), "")})
    since, fault = _since(session, shown, at.since, [one.id for one in series])
    groups = _groups(session, series)
    names = matrix.names(groups)
    focus_name, focus = _focus(list(zip(names, groups, strict=True)), at.workload)
    speeds = focus and (focus if shown == METRIC else _speeds(session, at.hardware, focus))
    cost = COSTS[at.cost]
    return rendering.render(
        request,
        "matrix.html",
        now=now,
        at=at,
        fault=fault,
        groups=groups,
        hardwares=hardwares,
        usual=[labels.settings(matrix.usual(one)) for one in groups],
        rows=matrix.heat_map(groups, at.show, since),
        failing=failing_cases(session, now),
        told=failing_by_series(session),
        marks=finding_data.marks(session, [one.id for one in series]),
        id_of=cases.id_of,
        names=names,
        focus_name=focus_name,
        effects=matrix.effects(speeds) if speeds else [],
        designs=interactions.designed(speeds) if speeds else [],
        ladder=matrix.ladder(speeds) if speeds else [],
        cost=metric(cost),
        figure=_front(session, speeds, cost) if speeds else None,
    )


def _focus(named: Sequence[tuple[str, CaseGroup]], name: str) -> tuple[str, CaseGroup | None]:
    """The group with this name, else the first of this workload, else the first."""
    alike = [one for one in named if one[1].workload == name] or named
    return next((one for one in named if one[0] == name), next(iter(alike), ("", None)))


def _newest(session: Session, name: str, hardware: str) -> tuple[list[Series], list[str]]:
    """The series on one kind of hardware with their newest points, and all kinds."""
    known = newest_series(session, name, MOST_SERIES)
    counts = Counter(formats.hardware(one.comparability) for one in known)
    kinds = sorted(counts, key=lambda kind: (-counts[kind], kind))
    chosen = hardware or next(iter(kinds), "")
    ids = [one.id for one in known if formats.hardware(one.comparability) == chosen]
    return [one for one in newest_of(session, ids) if one.points], kinds


def _groups(session: Session, series: Sequence[Series]) -> list[CaseGroup]:
    beside = cases.Beside(
        verdicts=queries.verdicts(session, [one.points[-1].result_id for one in series]),
        spreads=spreads_of(session, [one.id for one in series]),
    )
    return cases.groups(series, beside)


def _speeds(session: Session, hardware: str, of: CaseGroup) -> CaseGroup | None:
    """The same group of cases by throughput."""
    series, _ = _newest(session, METRIC, hardware)
    same = (of.workload, of.preset, of.comparability, of.project)
    groups = cases.groups(series)
    return next(
        (g for g in groups if (g.workload, g.preset, g.comparability, g.project) == same), None
    )


def _since(
    session: Session, name: str, revision: str, ids: Collection[str]
) -> tuple[dict[str, SeriesPoint] | None, str]:
    """The points of series at a revision, None if none is named; a sentence says why none is."""
    if not revision:
        return None, ""
    try:
        full = revisions.find(session, revision)
    except UnknownChoice as error:
        return {}, error.detail
    known = points_of_revisions(session, name, [full])
    counted = [replace(one, points=tuple(p for p in one.points if p.counts)) for one in known]
    points = {one.id: one.points[-1] for one in counted if one.points and one.id in ids}
    said = f"Nothing that counts was measured here at {formats.revision(full)}."
    return points, "" if points else said


def _front(session: Session, group: CaseGroup, cost: str) -> figures.Figure | None:
    """Draw the cases of a group by throughput and cost, each as one run measured them."""
    results = [row.latest.result_id for row in group.rows]
    costs = queries.values_of(session, cost, results)
    rows = [row for row in group.rows if row.latest.result_id in costs]
    places = [(row.latest.value, costs[row.latest.result_id]) for row in rows]
    best = set(matrix.front(places))
    drawn = [
        figures.ParetoCase(
            row.latest.result_id, labels.said(row.series.case), *places[at], best=at in best
        )
        for at, row in enumerate(rows)
    ]
    titles = [metric(METRIC).title, metric(cost).title]
    return figures.pareto(
        drawn, (titles[0], group.rows[0].series.unit), (titles[1], metric(cost).unit)
    )
