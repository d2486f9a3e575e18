"""The pages of comparisons, and of two revisions side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import or_
from sqlalchemy.orm import Session

from benchmarks.catalog.suites import suites
from service import comparisons
from service.api.dependencies import DatabaseSession as Reading
from service.api.dependencies import Now
from service.auth.permissions import Permission, needs
from service.dashboard import queries, rendering
from service.dashboard.query_params import CompareAddress, ComparisonsAddress
from service.errors import UnknownChoice
from service.history import revisions
from service.history.queries import usual_metric
from service.jobs import report
from service.models import ComparisonRow
from service.models.bisections import PROBES
from service.models.confirmations import CONFIRMATIONS
from service.schemas import gate, series

router = rendering.page_router(rendering.COUNTED)

PER_PAGE = 50
_ORDER = {
    series.ChangeVerdict.SLOWER: 0,
    series.ChangeVerdict.FASTER: 1,
    series.ChangeVerdict.UNCLEAR: 2,
    series.ChangeVerdict.MISSING: 3,
}


@router.get("/comparisons")
@needs(Permission.READ)
def list_comparisons(
    request: Request, session: Reading, now: Now, at: Annotated[ComparisonsAddress, Query()]
) -> HTMLResponse:
    """Show what somebody had compared, or what the service measured again; newest first."""
    steps = or_(*(ComparisonRow.source.startswith(kind) for kind in (PROBES, CONFIRMATIONS)))
    page = comparisons.list_comparisons(
        session, ~steps if at.kind == "gates" else steps, after=at.cursor or None, limit=PER_PAGE
    )
    return rendering.render(request, "comparisons.html", now=now, at=at, page=page)


@router.get("/comparisons/{comparison_id}")
@needs(Permission.READ)
def show_comparison(
    request: Request, session: Reading, now: Now, comparison_id: str
) -> HTMLResponse:
    """Show one comparison; it refreshes itself until it is over."""
    return rendering.render(
        request,
        "_comparison.html" if rendering.partial(request) else "comparison.html",
        now=now,
        one=comparisons.load_comparison(session, comparison_id, now),
        good=gate.GOOD,
        regressions=gate.REGRESSIONS,
    )


@router.get("/compare")
@needs(Permission.READ)
def compare_revisions(
    request: Request, session: Reading, now: Now, at: Annotated[CompareAddress, Query()]
) -> HTMLResponse:
    """Show two revisions side by side, case by case."""
    if "metric" not in at.model_fields_set:
        at = at.model_copy(update={"metric": usual_metric(session)})
    chosen, faults = _understood(session, at)
    changes = []
    if not faults and chosen.baseline and chosen.contender not in {"", chosen.baseline}:
        cases = report.cases_of(chosen.suite) if chosen.suite else None
        changes = report.changes_between(
            session, chosen.baseline, chosen.contender, at.metric, cases
        )
    return rendering.render(
        request,
        "compare.html",
        now=now,
        at=chosen,
        faults=faults,
        rows=worst_first(changes),
        tally=Counter(change.verdict.value for change in changes),
        revisions=queries.revisions(session),
        metrics=queries.metrics(session),
        suites=list(suites()),
    )


def _understood(session: Session, at: CompareAddress) -> tuple[CompareAddress, list[str]]:
    """The choices with revisions named in full, and a sentence for each that means nothing here."""
    full, faults = {"baseline": at.baseline, "contender": at.contender}, []
    for side, name in full.items():
        try:
            full[side] = revisions.find(session, name) if name else ""
        except UnknownChoice as error:
            faults.append(error.detail)
    try:
        if at.suite:
            report.cases_of(at.suite)
    except UnknownChoice as error:
        faults.append(error.detail)
    return at.model_copy(update=full), list(dict.fromkeys(faults))


def worst_first(changes: Sequence[series.RevisionChange]) -> list[series.RevisionChange]:
    """Put what got slower first, the largest loss on top, and what is missing last."""
    return sorted(
        changes, key=lambda one: (_ORDER[one.verdict], -abs(one.change or 0.0), one.case.key)
    )
