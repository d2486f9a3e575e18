"""The dashboard's pages: HTML outside ``/api``. Each reads, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from benchmarks.contracts import FINAL_STATES, JobState
from service.api.dependencies import DatabaseSession as Reading
from service.api.dependencies import LeaseTerms, Now
from service.auth.permissions import Permission, needs
from service.comparisons.worker_choice import LATELY
from service.dashboard import (
    assets,
    environments,
    error_pages,
    figures,
    finding_data,
    overview,
    queries,
    runs,
    series_changes,
)
from service.dashboard.query_params import JobsAddress, OverviewAddress, RunAddress
from service.dashboard.rendering import COUNTED, page_router, partial, render, render_error
from service.errors import NotFound
from service.history import best, exclusions, imports, replicates
from service.history.queries import latest_of_each_series, load_result, usual_metric
from service.history.ranking import REVISIONS
from service.history.run_noise import spreads_of
from service.history.traces import with_trace
from service.jobs import schedules, suggestions, views, workers
from service.jobs.types import Terms
from service.models import Job
from service.schemas.best import BestCase
from service.schemas.series import Series
from service.wording import formats

__all__ = ["mount", "render_error", "router"]

router = page_router(COUNTED)

SPARK_REVISIONS = REVISIONS
MOST_SERIES = 1_000
"""On the overview; a team's nights have some hundreds."""
BEST_SHOWN = 20
"""Workloads, presets and kinds of hardware whose fastest case is named; the API names all."""
JOBS_PER_PAGE = 50
FAILURES_SHOWN = timedelta(hours=24)
LEASES_UNSEEN = 3
"""After so many leases without a sign a worker is gone: its job went to another after the first."""


def mount(app: FastAPI) -> None:
    """Serve the static files, and make errors outside ``/api`` pages.

    Call it once the app has its exception handlers.
    """
    assets.mount(app)
    error_pages.install(app)


@router.get("/")
@needs(Permission.READ)
def show_overview(
    request: Request,
    session: Reading,
    now: Now,
    terms: LeaseTerms,
    at: Annotated[OverviewAddress, Query()],
) -> HTMLResponse:
    """Show the latest result of each series, and what runs now."""
    if "metric" not in at.model_fields_set:
        at = at.model_copy(update={"metric": usual_metric(session)})
    series = latest_of_each_series(session, at.metric, SPARK_REVISIONS, MOST_SERIES)
    verdicts = queries.verdicts(session, (one.points[-1].result_id for one in series if one.points))
    groups = overview.groups(series, verdicts, series_changes.renewed(session, series))
    counts = queries.jobs_by_state(session)
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
        best=_best(session, series, now, at),
        best_shown=BEST_SHOWN,
        marks=finding_data.marks(session),
        any_groups=bool(groups),
        most=MOST_SERIES if len(series) == MOST_SERIES else 0,
        metrics=queries.metrics(session),
        workloads=sorted({group.workload for group in groups}),
        hardwares=sorted({group.hardware for group in groups}),
        active=queries.active_jobs(session),
        counts=counts,
        running=queries.running(counts),
        failed=queries.jobs_failed_since(session, now - FAILURES_SHOWN),
        workers=workers.every(session),
        gone_before=_gone_before(now, terms),
    )


def _best(
    session: Reading, series: Sequence[Series], now: datetime, at: OverviewAddress
) -> list[BestCase]:
    """The fastest of several cases, of the chosen workload and hardware; a search looks for rows.

    The histories of throughput that the overview has read serve for it.
    """
    if at.metric != best.METRIC or at.text:
        return []
    return [
        one
        for one in best.best_among(session, series, now)
        if one.cases > 1
        and at.workload in {"", one.workload}
        and at.hardware in {"", formats.hardware(one.comparability)}
    ]


@router.get("/runs/{result_id}")
@needs(Permission.READ)
def show_run(
    request: Request, session: Reading, now: Now, result_id: str, at: Annotated[RunAddress, Query()]
) -> Response:
    """Show all that one run found out; an imported point is shown in its series."""
    if (series_id := imports.series_of_point(session, result_id)) is not None:
        return RedirectResponse(f"/series/{series_id}#points", 303)
    measured = replicates.with_others(session, load_result(session, result_id))
    stored = with_trace(session, suggestions.advised(session, measured))
    result = stored.result
    drawable = figures.drawable(result)
    of_case = queries.of_case(session, stored.job_id)
    points = queries.points_of(session, stored.id)
    spreads = spreads_of(session, [point.series_id for point in points.values()], least=1)
    metrics = runs.metrics(result, points, spreads)
    modules = runs.modules(result)
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
        sides=runs.sides(result),
        turns=runs.turns(result),
        startup=runs.startup(result),
        phases=runs.phases(result),
        phase_words=runs.PHASES,
        flags=runs.flags(result),
        evidence=runs.evidence(result.verdict.evidence) if result.verdict else [],
        suggestions=result.verdict.suggestions if result.verdict else (),
        profile=result.profile,
        operations=runs.operations(result),
        modules=modules,
        icicle=figures.module_times(modules.layers, runs.peak(result)) if modules else None,
        memory=runs.memory(result),
        losses=figures.loss_curves(result.long_parity) if drawable else None,
        at_the_peak=runs.at_the_peak(result),
        drawable=drawable,
        histogram=figures.step_histogram(result) if drawable else None,
        steps=figures.step_times(result) if drawable else None,
        telemetry=figures.telemetry(result, at.during) if drawable else None,
        readings=runs.readings(result, at.during),
        facts=environments.grouped(result.environment.facts),
        attempts=next(job.attempts for job in of_case if job.id == stored.job_id),
        of_case=of_case,
        exclusions=[
            one for part in stored.parts for one in exclusions.exclusions_of(session, part)
        ],
    )


@router.get("/jobs")
@needs(Permission.READ)
def list_jobs(
    request: Request, session: Reading, now: Now, at: Annotated[JobsAddress, Query()]
) -> HTMLResponse:
    """Show the queue, newest first."""
    states = [Job.state == at.state] if at.state else []
    page = views.list_jobs(session, *states, after=at.cursor or None, limit=JOBS_PER_PAGE)
    return render(
        request,
        "_jobs.html" if partial(request) else "jobs.html",
        now=now,
        at=at,
        jobs=queries.as_measured(session, page.items),
        further=page.next_cursor,
        counts=queries.jobs_by_state(session),
        states=[state.value for state in JobState],
    )


@router.get("/jobs/{job_id}")
@needs(Permission.READ)
def show_job(request: Request, session: Reading, now: Now, job_id: str) -> HTMLResponse:
    """Show one job with its attempts; it refreshes itself until the job is over."""
    of_case = queries.of_case(session, job_id)
    job = next((job for job in of_case if job.id == job_id), None)
    if job is None:
        raise NotFound("There is no such job; the list of jobs names those that there are.")
    row = session.get_one(Job, job_id)
    return render(
        request,
        "_job.html" if partial(request) else "job.html",
        now=now,
        line=job,
        kept_for=row.kept_for,
        final=job.state in FINAL_STATES,
        attempts=job.attempts,
        of_case=of_case,
        results=queries.results_of_job(session, job_id),
        result=load_result(session, job.result_id).result if job.result_id else None,
        before=queries.jobs_before(session, row) if job.state is JobState.QUEUED else 0,
    )


@router.get("/workers")
@needs(Permission.READ)
def list_workers(request: Request, session: Reading, now: Now, terms: LeaseTerms) -> HTMLResponse:
    """Show every worker that has ever introduced itself."""
    template = "_workers.html" if partial(request) else "workers.html"
    return render(
        request,
        template,
        now=now,
        workers=workers.every(session),
        doing=queries.doing(session),
        gone_before=_gone_before(now, terms),
    )


def _gone_before(now: datetime, terms: Terms) -> datetime:
    return now - max(LATELY, LEASES_UNSEEN * terms.lease)


@router.get("/schedules")
@needs(Permission.READ)
def list_schedules(request: Request, session: Reading, now: Now) -> HTMLResponse:
    """Show what is measured regularly."""
    every, last = schedules.every(session), queries.last_slots(session)
    return render(request, "schedules.html", now=now, schedules=every, last=last)
