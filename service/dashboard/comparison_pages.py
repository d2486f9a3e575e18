"""The pages of comparisons, and of two sides of the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from sqlalchemy import or_
from sqlalchemy.orm import Session

from benchmarks.catalog.suites import suites
from service import comparisons, models
from service.api.dependencies import Now, Prices, Reading
from service.auth.permissions import Permission
from service.dashboard import facets, queries, rendering
from service.dashboard.query_params import CompareAddress, ComparisonsAddress, ExploreAddress
from service.dashboard.sparkline import before_after
from service.history import contrasts, revisions
from service.history.queries import newest_series, usual_metric, values_around
from service.jobs import report
from service.jobs.spent import spent_on
from service.schemas import gate, series
from service.schemas.errors import UnknownChoice
from service.wording import formats

router = rendering.page_router(rendering.COUNTED)

PER_PAGE = 50
DAYS = 90
"""Days of history that are compared, unless a time is chosen."""
KINDS = {
    "revision": "Revisions",
    "worker": "Workers",
    "environment": "Environments",
    "setting": "Configurations",
    "date": "Dates",
}
Compared = series.RevisionChange | contrasts.Contrasted
_ORDER = {
    series.ChangeVerdict.SLOWER: 0,
    series.ChangeVerdict.FASTER: 1,
    series.ChangeVerdict.UNCLEAR: 2,
    series.ChangeVerdict.MISSING: 3,
}
MOST_PLOTS = 12
AROUND = 30
"""Points on each side that are drawn at most."""


@router.get("/comparisons")
@Permission.READ.required
def list_comparisons(
    request: Request, session: Reading, now: Now, at: Annotated[ComparisonsAddress, Query()]
) -> HTMLResponse:
    """Show what somebody had compared, or what the service measured again; newest first."""
    source = models.ComparisonRow.source
    steps = or_(source.startswith(models.PROBES), source.startswith(models.CONFIRMATIONS))
    page = comparisons.list_comparisons(
        session, ~steps if at.kind == "gates" else steps, after=at.cursor or None, limit=PER_PAGE
    )
    return rendering.render(request, "comparisons.html", now=now, at=at, page=page)


@router.get("/comparisons/{comparison_id}")
@Permission.READ.required
def show_comparison(
    request: Request, session: Reading, now: Now, prices: Prices, comparison_id: str
) -> HTMLResponse:
    """Show one comparison; it refreshes itself until it is over."""
    return rendering.render(
        request,
        "_comparison.html" if rendering.partial(request) else "comparison.html",
        now=now,
        one=comparisons.load_comparison(session, comparison_id, now),
        cost=spent_on(session, models.ComparisonRow, comparison_id, now, prices),
        good=gate.GOOD,
        regressions=gate.REGRESSIONS,
    )


@router.get("/compare")
@Permission.READ.required
def compare_sides(
    request: Request, session: Reading, now: Now, at: Annotated[CompareAddress, Query()]
) -> HTMLResponse:
    """Show two revisions, workers, environments, settings or times side by side, case by case."""
    if "metric" not in at.model_fields_set:
        at = at.model_copy(update={"metric": usual_metric(session)})
    chosen, faults = _understood(session, at)
    rows: Sequence[Compared] = ()
    apart: Sequence[contrasts.Apart] = ()
    if not faults and chosen.baseline and chosen.contender not in {"", chosen.baseline}:
        try:
            rows, apart = _compared(session, chosen, now)
        except UnknownChoice as error:
            faults.append(error.detail)
    return rendering.render(
        request,
        "compare.html",
        now=now,
        at=chosen,
        faults=faults,
        rows=worst_first(rows),
        plots=plotted(session, [one for one in rows if isinstance(one, series.RevisionChange)]),
        apart=apart,
        tally=Counter(one.verdict.value for one in rows),
        offered=_offered(session, chosen, now),
        kinds=KINDS,
        days=DAYS,
        metrics=queries.metrics(session),
        suites=list(suites()),
    )


def _compared(
    session: Session, at: CompareAddress, now: datetime
) -> tuple[Sequence[Compared], Sequence[contrasts.Apart]]:
    """The rows, and how the environments of both sides differ."""
    if at.by == "revision":
        cases = report.cases_of(at.suite) if at.suite else None
        changes = report.changes_between(session, at.baseline, at.contender, at.metric, cases)
        kept = [one for one in changes if at.workload in {"", one.case.workload}]
        ends = [(one.baseline, one.contender) for one in kept]
        digests = [{end.environment for end in side if end} for side in zip(*ends, strict=True)]
        return kept, contrasts.apart(session, *digests) if digests else ()
    since = at.since or now - timedelta(days=DAYS)
    sides, until = (at.baseline, at.contender), at.until or now
    rows = contrasts.contrasts(session, at.by, sides, at.metric, since, until, at.workload)
    return rows, contrasts.apart(session, *contrasts.environments(rows))


def _offered(session: Session, at: CompareAddress, now: datetime) -> list[tuple[str, str]]:
    """List the choices for a side, with words beside each."""
    names: Sequence[str] = ()
    if at.by == "revision":
        known = enumerate(queries.revisions(session))
        return [(one.name, _words(one, now, is_newest=not number)) for number, one in known]
    if at.by == "worker":
        names = queries.worker_names(session)
    elif at.by == "environment":
        names = contrasts.varied_facts(session)
    elif at.by == "setting":
        every = newest_series(session, at.metric)
        names = facets.options(every, ExploreAddress())["setting"]
    return [(name, "") for name in names]


def _words(revision: models.Revision, now: datetime, *, is_newest: bool) -> str:
    name, ago = formats.revision(revision.name), formats.ago(revision.ordered_at, now)
    return f"{name}, {ago}{', the newest' if is_newest else ''}"


def _understood(session: Session, at: CompareAddress) -> tuple[CompareAddress, list[str]]:
    """The choices with revisions named in full, and a sentence for each that means nothing here."""
    if at.by != "revision":
        return at, []
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


def worst_first(changes: Sequence[Compared]) -> list[Compared]:
    """Put what got slower first, the largest loss on top, and what is missing last."""
    return sorted(
        changes, key=lambda one: (_ORDER[one.verdict], -abs(one.change or 0.0), one.case.key)
    )


@dataclass(frozen=True, slots=True)
class PlottedChange:
    """A case's change with its history on both sides."""

    change: series.RevisionChange
    plot: Markup


def plotted(session: Session, changes: Sequence[series.RevisionChange]) -> list[PlottedChange]:
    """The largest changes that have a history, those that are sure first."""
    known = [one for one in changes if one.change is not None]
    known.sort(
        key=lambda one: (one.verdict is series.ChangeVerdict.UNCLEAR, -abs(one.change or 0.0))
    )
    return list(_plotted(session, known[:MOST_PLOTS]))


def _plotted(session: Session, changes: Sequence[series.RevisionChange]) -> Iterator[PlottedChange]:
    for one in changes:
        if not (one.series_id and one.baseline and one.contender):
            continue
        ends = one.baseline.revision_at, one.contender.revision_at
        if ends[0] >= ends[1]:  # backwards: time would run from right to left
            continue
        sides = values_around(session, one.series_id, ends, AROUND)
        if min(map(len, sides)) and max(map(len, sides)) > 1:
            values = [
                formats.quantity(end.value, one.unit) for end in (one.baseline, one.contender)
            ]
            label = f"{one.case.key}: {values[0]} at the baseline, {values[1]} at the contender"
            yield PlottedChange(one, before_after(*sides, label))
