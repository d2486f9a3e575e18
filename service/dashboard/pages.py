"""The dashboard's pages: HTML outside ``/api``. Each reads, and changes nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES, JobState
from benchmarks.suites import suites
from service.dashboard import (
    assets,
    environments,
    error_pages,
    figures,
    overview,
    queries,
    runs,
    tables,
    words,
)
from service.dashboard.addresses import (
    CompareAddress,
    HistoryAddress,
    JobsAddress,
    OverviewAddress,
    RunAddress,
)
from service.dashboard.rendering import partial, render, render_error
from service.database import get_now, get_session
from service.errors import NotFound
from service.report import cases_of, changes_between
from service.results import Series, latest_of_each_series, load_result, load_series

__all__ = ["mount", "render_error", "router"]

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

Reading = Annotated[Session, Depends(get_session, scope="function")]
Now = Annotated[datetime, Depends(get_now, scope="function")]

SPARK_POINTS = 30
POINTS_PER_PAGE = 50
JOBS_PER_PAGE = 50
FAILURES_SHOWN = timedelta(hours=24)


def mount(app: FastAPI) -> None:
    """Serve the static files, and make errors outside ``/api`` pages.

    Call it once the app has its exception handlers.
    """
    assets.mount(app)
    error_pages.install(app)


@router.get("/")
def show_overview(
    request: Request, session: Reading, now: Now, at: Annotated[OverviewAddress, Query()]
) -> HTMLResponse:
    """Show the latest result of each series, and what runs now."""
    stored = latest_of_each_series(session, at.metric, last=SPARK_POINTS)
    series = [overview.by_revision(one) for one in stored]
    found = queries.verdicts(session, (one.points[-1].result_id for one in series if one.points))
    groups = overview.groups(series, found)
    chosen = [
        group
        for group in groups
        if at.workload in {"", group.workload} and at.hardware in {"", group.hardware}
    ]
    return render(
        request,
        "_overview.html" if partial(request) else "overview.html",
        now=now,
        at=at,
        groups=overview.matching(chosen, at.text),
        any_groups=bool(groups),
        metrics=_in_order(queries.metrics(session)),
        workloads=sorted({group.workload for group in groups}),
        hardwares=sorted({group.hardware for group in groups}),
        active=queries.active_jobs(session),
        counts=queries.jobs_by_state(session),
        failed=queries.jobs_failed_since(session, now - FAILURES_SHOWN),
        workers=queries.workers(session),
    )


def _in_order(metrics: Iterable[str]) -> list[str]:
    order = {name: place for place, name in enumerate(words.METRICS)}
    return sorted(metrics, key=lambda name: (order.get(name, len(order)), name))


@router.get("/series/{series_id}")
def show_series(
    request: Request,
    session: Reading,
    now: Now,
    series_id: str,
    at: Annotated[HistoryAddress, Query()],
) -> HTMLResponse:
    """Show one series' history: chart, environment changes, every point."""
    whole = load_series(session, series_id)
    series = _newest(whole, at.last)
    known = queries.facts(session, {point.environment for point in series.points})
    newest_first = series.points[::-1]
    siblings = queries.siblings(session, whole)
    return render(
        request,
        "series.html",
        now=now,
        at=at,
        series=series,
        latest=next(reversed(overview.by_revision(series).points), None),
        total=len(whole.points),
        figure=figures.history(series, at.view),
        changes=environments.changes(series.points, known),
        change=overview.change(series),
        rows=newest_first[(at.page - 1) * POINTS_PER_PAGE : at.page * POINTS_PER_PAGE],
        pages=max(math.ceil(len(newest_first) / POINTS_PER_PAGE), 1),
        siblings=[(name, siblings[name]) for name in _in_order(siblings)],
    )


@router.get("/series/{series_id}/points.csv")
def download_points(session: Reading, series_id: str) -> PlainTextResponse:
    """Give every point of a series as CSV, in base units."""
    series = load_series(session, series_id)
    name = f"{series.case.workload}-{series.metric}-{series.id[:8]}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return PlainTextResponse(tables.csv_of(series), media_type="text/csv", headers=headers)


def _newest(series: Series, last: str) -> Series:
    return series if last == "all" else replace(series, points=series.points[-int(last) :])


@router.get("/runs/{result_id}")
def show_run(
    request: Request,
    session: Reading,
    now: Now,
    result_id: str,
    at: Annotated[RunAddress, Query()],
) -> HTMLResponse:
    """Show all that one run found out."""
    stored = load_result(session, result_id)
    result = stored.result
    metrics = runs.metrics(result, queries.metric_values(session, result_id))
    return render(
        request,
        "run.html",
        now=now,
        at=at,
        stored=stored,
        result=result,
        hardware=result.environment.comparability(),
        metrics=metrics,
        headlines=runs.headlines(metrics, result.verdict),
        phases=runs.phases(result),
        phase_words=runs.PHASES,
        flags=runs.flags(result),
        evidence=runs.evidence(result.verdict.evidence) if result.verdict else [],
        histogram=figures.step_histogram(result),
        steps=figures.step_times(result),
        telemetry=figures.telemetry(result, at.during),
        readings=runs.readings(result, at.during),
        facts=environments.grouped(result.environment.facts),
        attempts=queries.attempts(session, stored.job_id),
    )


@router.get("/jobs")
def list_jobs(
    request: Request, session: Reading, now: Now, at: Annotated[JobsAddress, Query()]
) -> HTMLResponse:
    """Show the queue, newest first."""
    lines, further = queries.jobs(
        session, state=at.state or None, before=at.before or None, limit=JOBS_PER_PAGE
    )
    return render(
        request,
        "_jobs.html" if partial(request) else "jobs.html",
        now=now,
        at=at,
        jobs=lines,
        further=further,
        counts=queries.jobs_by_state(session),
        states=[state.value for state in JobState],
    )


@router.get("/jobs/{job_id}")
def show_job(request: Request, session: Reading, now: Now, job_id: str) -> HTMLResponse:
    """Show one job with its attempts; it refreshes itself until the job is over."""
    found = queries.job(session, job_id)
    if found is None:
        raise NotFound("There is no such job; the list of jobs names those that there are.")
    entity, line = found
    return render(
        request,
        "_job.html" if partial(request) else "job.html",
        now=now,
        job=entity,
        line=line,
        final=JobState(line.state) in FINAL_STATES,
        attempts=queries.attempts(session, job_id),
        results=queries.results_of_job(session, job_id),
        result=load_result(session, line.result_id).result if line.result_id else None,
        before=queries.jobs_before(session, entity) if line.state == JobState.QUEUED else 0,
    )


@router.get("/compare")
def show_comparison(
    request: Request, session: Reading, now: Now, at: Annotated[CompareAddress, Query()]
) -> HTMLResponse:
    """Show two revisions side by side, case by case."""
    known = queries.revisions(session)
    names = [revision.name for revision in known]
    changes = []
    if at.baseline and at.contender and at.baseline != at.contender:
        wanted = cases_of(at.suite) if at.suite in suites() else None
        changes = changes_between(session, at.baseline, at.contender, at.metric, wanted)
    return render(
        request,
        "compare.html",
        now=now,
        at=at,
        rows=tables.worst_first(changes),
        tally=Counter(change.verdict.value for change in changes),
        revisions=known,
        unknown=[name for name in (at.baseline, at.contender) if name and name not in names],
        metrics=_in_order(queries.metrics(session)),
        suites=list(suites()),
    )


@router.get("/workers")
def list_workers(request: Request, session: Reading, now: Now) -> HTMLResponse:
    """Show every worker that has ever introduced itself."""
    template = "_workers.html" if partial(request) else "workers.html"
    return render(request, template, now=now, workers=queries.workers(session))


@router.get("/schedules")
def list_schedules(request: Request, session: Reading, now: Now) -> HTMLResponse:
    """Show what is measured regularly."""
    return render(request, "schedules.html", now=now, schedules=queries.schedules(session))
