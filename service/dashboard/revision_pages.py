"""The page of a revision: what it is, what it changed, and what came of that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from service import comparisons, findings, models
from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.comparisons import bisection
from service.dashboard import queries, rendering
from service.dashboard.comparison_pages import worst_first
from service.dashboard.query_params import RevisionAddress
from service.history import annotation_table, revisions
from service.history.queries import failures_of_revisions, name_of, usual_metric
from service.history.series_history import PlacedChange
from service.jobs import report
from service.models.project_filter import is_seen
from service.schemas import errors
from service.schemas.series import SeriesName

router = rendering.page_router(rendering.COUNTED)

SHOWN = 50
"""Findings, gates, bisections and failures that are listed, each."""
MOST_LEVELS = 200


@router.get("/revisions/{revision:path}")
@Permission.READ.required
def show_revision(
    request: Request,
    session: Reading,
    now: Now,
    revision: str,
    at: Annotated[RevisionAddress, Query()],
) -> HTMLResponse:
    """Show a revision's commits, what it changed in every case, its findings and gates."""
    row = _found(session, revision)
    projects = _projects(session, row.name)
    project = at.project if at.project in projects else next(iter(projects), "")
    before, after = _beside(session, row, project)
    measure = at.metric or usual_metric(session)
    changes = (
        report.changes_between(session, before, row.name, measure, project=project)
        if before
        else []
    )
    own = _both_ends(row.name)
    source = models.ComparisonRow.source
    gates = ~or_(source.startswith(models.PROBES), source.startswith(models.CONFIRMATIONS))
    about = models.FindingRow.first_bad == row.name
    return rendering.render(
        request,
        "revision.html",
        now=now,
        one=row,
        at=at.model_copy(update={"project": project}) if project or projects[1:] else at,
        project=project,
        projects=projects,
        before=before,
        after=after,
        annotations=annotation_table.of_revision(session, row.name),
        commits=_commits(session, row.name, before),
        levels=_levels(session, row.name),
        measure=measure,
        metrics=queries.metrics(session),
        rows=worst_first(changes),
        tally=Counter(change.verdict.value for change in changes),
        failures=failures_of_revisions(session, [row.name])[:SHOWN],
        findings=findings.list_findings(session, about, limit=SHOWN).items,
        gates=comparisons.list_comparisons(session, own, gates, after=None, limit=SHOWN).items,
        bisections=_bisections(session, row.name),
    )


def _found(session: Session, name: str) -> models.Revision:
    try:
        return session.get_one(models.Revision, revisions.find(session, name))
    except errors.UnknownChoice as error:
        raise errors.NotFound(error.detail) from None


def _both_ends(name: str) -> Any:
    return or_(models.ComparisonRow.baseline == name, models.ComparisonRow.contender == name)


def _projects(session: Session, name: str) -> list[str]:
    """The projects that have a revision: who measured it last first, who only compared it last."""
    measured = (
        select(models.SeriesRow.project)
        .join(models.Point, models.Point.series_id == models.SeriesRow.id)
        .where(models.Point.revision == name)
        .group_by(models.SeriesRow.project)
        .order_by(func.max(models.Point.measured_at).desc(), models.SeriesRow.project)
    )
    compared = models.Submission.source.startswith(revisions.COMPARISON)
    submitted = (
        select(models.Submission.project)
        .where(models.Submission.revision == name)
        .group_by(models.Submission.project)
        .order_by(func.min(case((compared, 1), else_=0)), models.Submission.project)
    )
    return list(dict.fromkeys([*session.scalars(measured), *session.scalars(submitted)]))


def _beside(session: Session, row: models.Revision, project: str) -> tuple[str | None, str | None]:
    """The revisions of a project's history right before and right after one."""
    at = models.Revision.ordered_at
    known = revisions.in_history_of(project)
    nearest = select(models.Revision.name).where(known, models.Revision.name != row.name).limit(1)
    before = session.scalar(
        nearest.where(at < row.ordered_at).order_by(at.desc(), models.Revision.name)
    )
    after = session.scalar(nearest.where(at > row.ordered_at).order_by(at, models.Revision.name))
    return before, after


def _levels(session: Session, name: str) -> list[tuple[SeriesName, PlacedChange]]:
    """The watched series whose level changes with a revision, what is worse first."""
    query = (
        select(models.SeriesRow, models.ChangeRow)
        .join(models.SeriesRow, models.SeriesRow.id == models.ChangeRow.series_id)
        .where(models.ChangeRow.first_bad == name, models.ChangeRow.present)
        .order_by(models.ChangeRow.id)
        .limit(MOST_LEVELS)
    )
    found = [(name_of(series), PlacedChange.of(row)) for series, row in session.execute(query)]
    watched = (one for one in found if one[0].is_watched)
    return sorted(watched, key=lambda one: (one[1].change.improvement, -abs(one[1].change.effect)))


@dataclass(frozen=True, slots=True)
class ShownCommits:
    """Commits up to a revision, the oldest first, and the one that they follow."""

    good: str
    commits: list[dict[str, Any]]


def _commits(session: Session, name: str, before: str | None) -> ShownCommits | None:
    """The commits between the measured revision before and this one, as a worker listed them.

    From another revision on if nobody asked for those; None if none were listed. Ranges are of
    nobody in particular: only those from a revision that the reader knows are shown.
    """
    own = models.CommitRangeRow
    listed = select(own.good).where(own.bad == name, own.listed_at.is_not(None))
    listed = listed.where(is_seen(session, own.good))
    order = ((own.good == before).desc(), own.listed_at.desc())
    goods = session.scalars(listed.order_by(*order).limit(SHOWN)).all()
    rows = (session.get_one(own, (good, name)) for good in goods)
    row = next((one for one in rows if one.commits), None)
    return ShownCommits(row.good, row.commits) if row else None


def _bisections(session: Session, name: str) -> Any:
    """The bisections that measured a revision, or are about a finding that begins with it."""
    source = models.ComparisonRow.source
    probes = select(source).where(_both_ends(name), source.startswith(models.PROBES))
    probed = probes.distinct().limit(SHOWN)
    ids = [source.removeprefix(models.PROBES) for source in session.scalars(probed)]
    about = select(models.FindingRow.id).where(models.FindingRow.first_bad == name)
    of_it = or_(models.BisectionRow.id.in_(ids), models.BisectionRow.finding_id.in_(about))
    return bisection.list_bisections(session, of_it, after=None, limit=SHOWN).items
