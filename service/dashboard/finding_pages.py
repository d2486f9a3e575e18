"""The pages of findings: what asks for attention, and one finding with all that belongs to it.

They read; what a person does there goes to the JSON API, from a script of the same origin.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from service import findings, models
from service.analysis.contrast import LEAST_EFFECT
from service.analysis.detection.alarms import PATIENCE
from service.analysis.detection.windows import LEAST_POINTS
from service.api.dependencies import Now, Prices, Reading
from service.auth.permissions import Permission
from service.comparisons import bisection
from service.dashboard import (
    figures,
    finding_data,
    finding_labels,
    kernels,
    rendering,
    series_changes,
)
from service.dashboard.query_params import InboxAddress
from service.findings import threshold_table
from service.jobs.spent import spent_on
from service.schemas.findings import AffectedSeries
from service.schemas.series import Series
from service.wording.bisected import noun_of

router = rendering.page_router(rendering.COUNTED)

SERIES_SHOWN = 12
"""Series in numbers that a finding's page shows; all of them on demand."""
KERNELS_SHOWN = 10
"""Kernels that a finding's page shows; a page of its own has them all."""


@router.get("/findings")
@Permission.READ.required
def list_findings(
    request: Request, session: Reading, now: Now, at: Annotated[InboxAddress, Query()]
) -> HTMLResponse:
    """Show what asks for attention, what is measured again, and what is over."""
    return rendering.render(
        request,
        "_findings.html" if rendering.partial(request) else "findings.html",
        now=now,
        at=at,
        report=finding_data.report(session, now),
        active=finding_data.active(session),
        most=finding_data.MOST_ACTIVE,
        closed=finding_data.closed(session, at.cursor or None),
        running=finding_data.running(session),
        for_nothing=finding_data.for_nothing(session, now),
        longest=finding_data.longest_history(session),
        least_points=LEAST_POINTS,
        patience=PATIENCE,
        confirmations=request.app.state.settings.confirmations,
        actions={name: one for name, one in findings.ACTIONS.items() if one.seen & findings.ACTIVE},
    )


@router.get("/thresholds")
@Permission.READ.required
def list_thresholds(request: Request, session: Reading, now: Now) -> HTMLResponse:
    """Show from which size on changes become findings, where a team has said so."""
    rules = threshold_table.list_thresholds(session)
    about = models.SeriesRow.id.in_([rule.series_id for rule in rules if rule.series_id])
    return rendering.render(
        request,
        "thresholds.html",
        now=now,
        thresholds=rules,
        series={row.id: row for row in session.scalars(select(models.SeriesRow).where(about))},
        default=LEAST_EFFECT,
    )


@router.get("/findings/{finding_id}")
@Permission.READ.required
def show_finding(
    request: Request,
    session: Reading,
    now: Now,
    prices: Prices,
    finding_id: str,
    series_shown: Annotated[Literal["", "all"], Query(alias="series")] = "",
) -> HTMLResponse:
    """Show one finding: what changed, why, since when, and what was done about it."""
    finding = findings.load_finding(session, finding_id)
    summary = finding.summary
    node = session.get(models.WorkerRow, summary.worker) if summary.worker else None
    first = finding.series[0] if finding.series else None
    series = finding_data.around(session, first) if first else None
    between, left_out = finding_data.revisions_between(session, summary)
    return rendering.render(
        request,
        "finding.html",
        now=now,
        finding=finding,
        one=summary,
        cost=spent_on(session, models.FindingRow, finding_id, now, prices),
        first=first,
        every=series_shown == "all",
        most_series=SERIES_SHOWN,
        figure=_figure(session, finding_id, series, first) if series and first else None,
        kernels=_kernels(session, series, first) if series and first else None,
        evidence=finding_data.grouped(finding.attribution),
        compare=finding_data.compare_link(summary, first.series.metric if first else ""),
        by_cell=finding_data.cells_of(session, finding),
        most_others=finding_data.MOST_OTHERS,
        between=between,
        left_out=left_out,
        confirmations=finding_data.with_pairs(
            session, finding_data.confirmations_of(session, finding), now
        ),
        bisected=bisection.of_finding(session, finding_id),
        noun=noun_of(summary.first_bad),
        may_bisect=bisection.may_begin(session, summary.last_good, summary.first_bad, now),
        cases=finding_data.two_cases(session, finding_id),
        node=node,
        node_results=finding_data.results_of(session, node.name, summary.comparability)
        if node
        else [],
        offers=finding_labels.offers(summary.state),
    )


def _figure(
    session: Session, finding_id: str, series: Series, affected: AffectedSeries
) -> figures.Figure | None:
    changes = series_changes.changes_of(session, series, chosen=finding_id)
    changed = series_changes.environments_of(session, series.points)
    analysed = series_changes.analysed(session, series, changes, changed)
    if not any(step.chosen for step in analysed.steps):
        return None
    return figures.before_after(series, finding_data.with_end(analysed, series, affected))


def _kernels(
    session: Session, series: Series, affected: AffectedSeries
) -> kernels.ShownKernels | None:
    """Compare the profiles nearest to a change, one before it and one after it."""
    beside = finding_data.profiled_beside(session, series, affected.first_bad_result)
    return kernels.compared(*beside, KERNELS_SHOWN) if beside else None
