"""Reads findings."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric
from service.analysis.statement import Statement
from service.database import paging
from service.database.session import found
from service.findings.rules import ACTIVE, DRIFT, ReportedPlace
from service.history import failing, ranking, revisions
from service.history.change_ends import doubtful_end, ends_of
from service.history.queries import name_of
from service.history.series_history import SeriesHistory
from service.models import (
    ChangeRow,
    FindingEvent,
    FindingRow,
    FindingSeries,
    FindingState,
    ResultRow,
    SeriesRow,
)
from service.schemas import findings as schemas
from service.schemas.series import SeriesName
from service.wording import formats
from service.wording.statements import headline_of, say_stored, worded


def load_finding(session: Session, finding_id: str) -> schemas.FindingView:
    """One finding with its series and its history.

    Raises:
        NotFound: there is no such finding.
    """
    row = found(session, FindingRow, finding_id)
    events = select(FindingEvent).where(FindingEvent.finding_id == finding_id)
    return schemas.FindingView(
        summary=_summaries(session, [row])[0],
        attribution=attribution_of(row.says, row.attribution) if row.attribution else None,
        series=tuple(_affected(session, finding_id)),
        events=tuple(
            schemas.FindingEventView(event.at, event.actor, event.action, _detail(event))
            for event in session.scalars(events.order_by(FindingEvent.id))
        ),
        narrowed=_narrowed(session, row),
        failed=tuple(_failed(session, row)) if row.kind == schemas.FindingKind.FAILURE else (),
    )


def _failed(session: Session, row: FindingRow) -> Iterator[schemas.FailedCase]:
    """Yield the cases that a failure is about, with what is known of each while it was open."""
    about = SeriesRow.id.in_(row.measured["series"])
    named = session.scalars(select(SeriesRow).where(about).order_by(SeriesRow.case_key))
    names = [name_of(series) for series in named]
    which = [
        ResultRow.case_key.in_({name.case.key for name in names}),
        ResultRow.status.in_(row.measured["status"]),
        *([] if row.closed_at is None else [ResultRow.received_at <= row.closed_at]),
    ]
    failures: dict[ranking.CaseId, list[failing.CaseFailure]] = {}
    for one in failing.failures_since(session, row.opened_at - failing.REMEMBERED, *which):
        if one.revision_at >= row.first_bad_at:
            failures.setdefault(one.case, []).append(one)
    for name in names:
        of_case = failures.get(ranking.case_id(name.case.key, name.project, name.comparability))
        if of_case:
            first, newest = of_case[0], of_case[-1]
            yield schemas.FailedCase(
                series=name,
                fails=row.closed_at is None and name.id in row.measured["failing"],
                results=len(of_case),
                workers=tuple(sorted({one.worker for one in of_case})),
                first_revision=first.revision,
                first_result=first.result_id,
                newest_revision=newest.revision,
                newest_result=newest.result_id,
                reason=newest.reason,
            )


def failing_by_series(session: Session) -> dict[str, str]:
    """The open finding about each case that fails, by the series of its throughput."""
    of_kind = FindingRow.kind == schemas.FindingKind.FAILURE, FindingRow.state.in_(ACTIVE)
    rows = session.execute(select(FindingRow.id, FindingRow.measured).where(*of_kind))
    return {series: name for name, measured in rows for series in measured["failing"]}


def _narrowed(session: Session, row: FindingRow) -> schemas.NarrowedRange | None:
    """Place of its first series' change by now; None if the finding lies there too, or if single
    measurements alone say so."""
    first = FindingSeries.finding_id == row.id, FindingSeries.place == 0
    query = (
        select(ChangeRow)
        .join(FindingSeries, FindingSeries.change_id == ChangeRow.id)
        .where(*first, ChangeRow.present)
    )
    change, confirmed = session.scalars(query).first(), (row.last_good, row.first_bad)
    if change is None or (ends := ends_of(session, change)) == confirmed:
        return None
    return None if doubtful_end(session, change, ends, confirmed) else schemas.NarrowedRange(*ends)


def attribution_of(says: dict[str, Any], stored: dict[str, Any]) -> schemas.AttributionView:
    """An attribution in words."""
    return schemas.AttributionView.model_validate({**worded(stored), "sentence": say_stored(says)})


def _detail(event: FindingEvent) -> str:
    return event.detail if event.says is None else say_stored(event.says)


def list_findings(
    session: Session, *conditions: ColumnElement[bool], after: str | None = None, limit: int = 100
) -> paging.Page[schemas.FindingSummary]:
    """Findings that meet ``conditions``, the newest first."""
    page = paging.newest_first(session, FindingRow, FindingRow.id, conditions, after, limit)
    return page.shown(_summaries(session, page.items))


def of_series(session: Session, series_id: str) -> tuple[schemas.FindingSummary, ...]:
    """Every finding that is about one series, the newest first."""
    about = select(FindingSeries.finding_id).where(FindingSeries.series_id == series_id)
    return list_findings(session, FindingRow.id.in_(about)).items


def count_active(session: Session) -> int:
    """Count the findings that ask for somebody's attention."""
    active = select(func.count()).select_from(FindingRow).where(FindingRow.state.in_(ACTIVE))
    return session.execute(active).scalar_one()


def expected_false_since(session: Session, since: datetime, *which: ColumnElement[bool]) -> float:
    """Give the expected number of false findings among those (``which``) opened since then.

    Each finding that was refuted meanwhile counts as one.
    """
    refuted = FindingRow.opened_at >= since, FindingRow.state.in_(schemas.REFUTED), *which
    known = session.execute(select(func.count()).select_from(FindingRow).where(*refuted))
    return known.scalar_one() + math.fsum(doubts_since(session, since, *which))


def doubts_since(session: Session, since: datetime, *which: ColumnElement[bool]) -> Sequence[float]:
    """For each finding opened since then, the probability that none of its series changed.

    Without those of which this is known by now.
    """
    least = (
        select(func.min(FindingSeries.doubt))
        .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
        .where(FindingRow.opened_at >= since, FindingRow.state.not_in(schemas.REFUTED), *which)
        .group_by(FindingRow.id)
    )
    return session.scalars(least).all()


def is_drifting(session: Session, series_id: str) -> bool:
    """Return True if an open finding says that a series moves little by little."""
    query = (
        select(FindingSeries.series_id)
        .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
        .where(FindingSeries.series_id == series_id, FindingSeries.ended == "")
        .where(FindingRow.drifts, FindingRow.state.in_(ACTIVE))
    )
    return session.scalars(query.limit(1)).first() is not None


def reported_places(
    session: Session, histories: Collection[SeriesHistory]
) -> dict[str, list[ReportedPlace]]:
    """Load the places at which reported changes begin or end, by series."""
    by_id = {history.series.id: history for history in histories}
    places: dict[str, list[ReportedPlace]] = {series_id: [] for series_id in by_id}
    link, row = FindingSeries, FindingRow
    columns = link.series_id, link.first_bad_at, link.ended_at, link.effect
    rows = session.execute(
        select(*columns, row.drifts)
        .join(row, row.id == link.finding_id)
        .where(link.series_id.in_(by_id))
    )
    for series_id, begun, ended, effect, drifts in rows:
        history, of_series = by_id[series_id], places[series_id]
        begin = history.recent.index_of(begun)
        end = None if ended is None else history.recent.index_of(ended)
        if begin is not None:
            until = last_point(session, history, begun) if drifts else begin
            of_series.append(ReportedPlace(begin, effect, until))
        if end is not None:
            of_series.append(ReportedPlace(end, -effect, end))
    return places


def last_point(session: Session, history: SeriesHistory, begun: datetime) -> int:
    """Give the number of the last point up to which a drift may go on in a series."""
    until = revisions.beside(session, begun, history.series.project, DRIFT)
    return history.recent.index_of(until) or history.recent.first


def places_of(session: Session, series: SeriesName, subject: str) -> list[tuple[datetime, int]]:
    """Give where changes of a subject begin or end that findings report in the case of a series.

    With each the number of revisions for which it may go on. The series itself does not count.
    """
    link = FindingSeries
    query = (
        select(
            link.first_bad_at,
            link.ended_at,
            FindingRow.drifts,
            SeriesRow.metric,
            SeriesRow.comparability,
        )
        .join(SeriesRow, SeriesRow.id == FindingSeries.series_id)
        .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
        .where(FindingRow.state.not_in(schemas.REFUTED), FindingRow.project == series.project)
        .where(SeriesRow.case_key == series.case.key, SeriesRow.id != series.id)
    )
    return [
        (at, lasts)
        for begun, ended, drifts, name, comparability in session.execute(query)
        if metric(name).subject == subject and comparability == series.comparability
        for at, lasts in ((begun, DRIFT if drifts else 0), (ended, 0))
        if at is not None
    ]


def _affected(session: Session, finding_id: str) -> list[schemas.AffectedSeries]:
    query = (
        select(FindingSeries, SeriesRow)
        .join(SeriesRow, SeriesRow.id == FindingSeries.series_id)
        .where(FindingSeries.finding_id == finding_id)
        .order_by(FindingSeries.place)
    )
    return [
        schemas.AffectedSeries(name_of(series), **link.fields_of(schemas.AffectedSeries))
        for link, series in session.execute(query)
    ]


def _summaries(session: Session, rows: Sequence[FindingRow]) -> list[schemas.FindingSummary]:
    effects: dict[str, list[float]] = {row.id: [] for row in rows}
    devices = {row.id: {formats.hardware(row.comparability)} for row in rows}
    failures: dict[str, list[str]] = {}
    for row in rows:
        for series_id in row.measured["series"] if row.kind == schemas.FindingKind.FAILURE else ():
            failures.setdefault(series_id, []).append(row.id)
    if failures:
        about = select(SeriesRow.id, SeriesRow.comparability).where(SeriesRow.id.in_(failures))
        for series_id, comparability in session.execute(about):
            for finding_id in failures[series_id]:
                devices[finding_id].add(formats.hardware(comparability))
    query = (
        select(FindingSeries.finding_id, FindingSeries.effect, SeriesRow.comparability)
        .join(SeriesRow, SeriesRow.id == FindingSeries.series_id)
        .where(FindingSeries.finding_id.in_(effects))
    )
    for finding_id, effect, comparability in session.execute(query):
        effects[finding_id].append(effect)
        devices[finding_id].add(formats.hardware(comparability))
    return [_summary(row, effects[row.id], devices[row.id]) for row in rows]


def _summary(
    row: FindingRow, effects: Sequence[float], devices: Collection[str]
) -> schemas.FindingSummary:
    shown = {
        "kind": schemas.FindingKind(row.kind),
        "state": FindingState(row.state),
        "certainty": schemas.Certainty(row.certainty),
        "headline": headline_of(Statement.read(row.says)),
        "sentence": say_stored(row.says),
        "series_count": len(effects),
        "worst_effect": max(effects, key=abs, default=None),
        "hardware": tuple(sorted(devices)),
    }
    return schemas.FindingSummary(**row.fields_of(schemas.FindingSummary) | shown)
