"""The dashboard's pages: HTML outside ``/api``. Each reads, and changes nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES, JobState
from service.api.dependencies import LeaseTerms, Now, Reading
from service.auth.permissions import Permission
from service.dashboard import (
    assets,
    cases,
    environments,
    error_pages,
    figures,
    finding_data,
    gangs,
    overview,
    queries,
    rendering,
    runs,
    series_changes,
)
from service.dashboard.finding_data import Mark
from service.dashboard.query_params import CasesAddress, JobsAddress, RunAddress
from service.dashboard.worker_pages import gone_before
from service.findings import failing_by_series
from service.history import exclusions, imports, replicates
from service.history.attachments import with_artifacts
from service.history.failing import failing_cases
from service.history.queries import facts_of, load_result, newest_series, usual_metric, with_latest
from service.history.run_noise import spreads_of
from service.jobs import suggestions, views, workers
from service.jobs.types import Terms
from service.models import Job, LabelSet, Point
from service.schemas.errors import NotFound
from service.wording import formats, waiting

__all__ = ["mount", "router"]

router = rendering.page_router(rendering.COUNTED)

SPARK_REVISIONS = 30
MOST_SERIES = 1_000
"""Of a metric, that are looked at; a team's nights have some hundreds."""
ACTIVE_SHOWN = 5
"""Jobs under way that the overview lists."""
JOBS_PER_PAGE = 50
FAILURES_SHOWN = timedelta(hours=24)


def mount(app: FastAPI) -> None:
    """Serve the static files, and make errors outside ``/api`` pages.

    Call it once the app has its exception handlers.
    """
    assets.mount(app)
    error_pages.install(app)


@router.get("/")
@Permission.READ.required
def show_overview(request: Request, session: Reading, now: Now, terms: LeaseTerms) -> Response:
    """Show whether everything is all right, what changed, and how fast training is."""
    counts = queries.jobs_by_state(session)
    return rendering.render(
        request,
        "_overview.html" if rendering.partial(request) else "overview.html",
        now=now,
        shown=overview.load_overview(session, now, MOST_SERIES),
        active=queries.active_jobs(session, ACTIVE_SHOWN),
        counts=counts,
        running=queries.running(counts),
        failed=queries.jobs_failed_since(session, now - FAILURES_SHOWN),
        failed_hours=FAILURES_SHOWN // timedelta(hours=1),
        workers=workers.every(session),
        gone_before=gone_before(now, terms),
        most_failing=overview.MOST_FAILING,
    )


@router.get("/cases")
@Permission.READ.required
def list_cases(
    request: Request, session: Reading, now: Now, at: Annotated[CasesAddress, Query()]
) -> Response:
    """Show the newest value of each series, against its level."""
    if "metric" not in at.model_fields_set:
        at = at.model_copy(update={"metric": usual_metric(session)})
    known = newest_series(session, at.metric, MOST_SERIES)
    marks, failing = finding_data.marks(session), failing_cases(session, now)
    chosen = [one for one in known if cases.is_chosen(one, at, marks, failing)]
    series = with_latest(session, chosen, SPARK_REVISIONS)
    measured = [one.points[-1].result_id for one in series if one.points]
    beside = cases.Beside(
        verdicts=queries.verdicts(session, measured),
        renewed=series_changes.renewed(session, series),
        spreads=spreads_of(session, [one.id for one in series]),
        failing=failing,
        effects={key: mark.effect for key, (mark, *_) in marks.items()},
    )
    counts = queries.jobs_by_state(session)
    return rendering.render(
        request,
        "_cases.html" if rendering.partial(request) else "cases.html",
        now=now,
        at=at,
        groups=cases.matching(cases.groups(series, beside, at.sort), at.text),
        marks=marks,
        told=failing_by_series(session),
        any_series=bool(known),
        most=MOST_SERIES if len(known) == MOST_SERIES else 0,
        metrics=queries.metrics(session),
        workloads=sorted({one.case.workload for one in known}),
        hardwares=sorted({formats.hardware(one.comparability) for one in known}),
        projects=sorted({one.project for one in known} - {""}),
        busy=queries.busy(counts),
    )


@router.get("/runs/{result_id}")
@Permission.READ.required
def show_run(
    request: Request, session: Reading, now: Now, result_id: str, at: Annotated[RunAddress, Query()]
) -> Response:
    """Show all that one run found out; an imported point is shown in its series."""
    if (series_id := imports.series_of_point(session, result_id)) is not None:
        return RedirectResponse(f"/series/{series_id}#points", 303)
    measured = replicates.with_others(session, load_result(session, result_id))
    stored = with_artifacts(session, suggestions.advised(session, measured))
    result = stored.result
    drawable = figures.drawable(result)
    of_case = queries.of_case(session, stored.job_id)
    points = queries.points_of(session, stored.id)
    spreads = spreads_of(session, [point.series_id for point in points.values()], least=1)
    metrics = runs.metrics(result, points, spreads)
    case_series = next((point.series_id for point in points.values()), None)
    case_series = case_series or queries.series_of_case(
        session, result.case.key, stored.project, result.environment.comparability()
    )
    modules = runs.modules(result)
    return rendering.render(
        request,
        "run.html",
        now=now,
        at=at,
        stored=stored,
        result=result,
        hardware=result.environment.comparability(),
        metrics=metrics,
        marks=_marks(session, points.values()),
        begun=finding_data.begun_at(session, stored.parts),
        case_series=case_series,
        told=failing_by_series(session).get(case_series or "") if result.status != "ok" else None,
        headlines=runs.headlines(metrics, result.verdict),
        sides=runs.sides(result),
        turns=runs.turns(result),
        startup=runs.startup(result),
        phases=runs.phases(result),
        gang=gangs.gang(result),
        phase_words=runs.PHASES,
        flags=runs.flags(result),
        evidence=runs.evidence(result.verdict.evidence) if result.verdict else [],
        suggestions=result.verdict.suggestions if result.verdict else (),
        profile=result.profile,
        operations=runs.operations(result),
        lines=figures.line_times(result.profile, runs.peak(result))
        if result.profile.operations
        else None,
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
        run_before=_run_before(session, points.values()),
        attempts=next(job.attempts for job in of_case if job.id == stored.job_id),
        of_case=of_case,
        exclusions=[
            one for part in stored.parts for one in exclusions.exclusions_of(session, part)
        ],
    )


def _run_before(session: Reading, points: Collection[Point]) -> runs.RunBefore | None:
    """The run before on the same worker, with what has changed of the worker since."""
    now = next(iter(points), None)
    before = queries.point_before(session, now) if now else None
    if now is None or before is None:
        return None
    facts = facts_of(session, {before.environment, now.environment})
    changed = environments.changed_facts(facts[before.environment], facts[now.environment])
    return runs.RunBefore(before.result_id, before.revision, changed)


def _marks(session: Reading, points: Collection[Point]) -> list[Mark]:
    """The open findings that a run is at or after, each with the largest of its effects."""
    known = finding_data.marks(session, [point.series_id for point in points])
    about = [
        mark
        for point in points
        for mark in known.get(point.series_id, ())
        if mark.since <= point.revision_at
    ]
    largest = sorted(about, key=lambda mark: abs(mark.effect))
    return list({mark.finding: mark for mark in largest}.values())[::-1]


@router.get("/jobs")
@Permission.READ.required
def list_jobs(
    request: Request, session: Reading, now: Now, at: Annotated[JobsAddress, Query()]
) -> Response:
    """Show the queue, newest first."""
    states = [Job.state == at.state] if at.state else []
    if at.hours:
        states.append(Job.finished_at >= now - timedelta(hours=at.hours))
    counts = queries.jobs_by_state(session)
    page = views.list_jobs(session, *states, after=at.cursor or None, limit=JOBS_PER_PAGE)
    return rendering.render(
        request,
        "_jobs.html" if rendering.partial(request) else "jobs.html",
        now=now,
        at=at,
        jobs=queries.as_measured(session, page.items),
        further=page.next_cursor,
        counts=counts,
        states=[state.value for state in JobState],
        busy=queries.busy(counts),
    )


@router.get("/jobs/{job_id}")
@Permission.READ.required
def show_job(
    request: Request, session: Reading, now: Now, terms: LeaseTerms, job_id: str
) -> Response:
    """Show one job with its attempts; it refreshes itself until the job is over."""
    of_case = queries.of_case(session, job_id)
    job = next((job for job in of_case if job.id == job_id), None)
    if job is None:
        raise NotFound("There is no such job; the list of jobs names those that there are.")
    row, queued = session.get_one(Job, job_id), job.state is JobState.QUEUED
    return rendering.render(
        request,
        "_job.html" if rendering.partial(request) else "job.html",
        now=now,
        line=job,
        kept_for=row.kept_for,
        final=job.state in FINAL_STATES,
        attempts=job.attempts,
        of_case=of_case,
        results=queries.results_of_job(session, job_id),
        result=load_result(session, job.result_id).result if job.result_id else None,
        before=queries.jobs_before(session, row) if queued else 0,
        nobody=_nobody(session, row, now, terms) if queued else "",
    )


def _nobody(session: Session, job: Job, now: datetime, terms: Terms) -> str:
    """Say why no worker can take a queued job; empty if one can."""
    requires = session.get_one(LabelSet, job.requires).labels
    seen_since = gone_before(now, terms)
    return waiting.why_queued(workers.every(session), requires, seen_since, now)
