"""Checks what analysis and people recorded: findings, suspicions, exclusions, changes of series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from service import models
from service.analysis.detection.change import ChangePoint
from service.analysis.detection.windows import joined
from service.findings import ACTIONS, ACTIVE
from service.maintenance.verify.agreement import ROWS, names_moment
from service.maintenance.verify.values import Breach
from service.schemas.findings import FindingKind


def every_finding(session: Session) -> Iterator[Breach]:
    """11: a finding is as its history and its series say."""
    for name in session.scalars(select(models.FindingRow.id).order_by(models.FindingRow.id)).all():
        row = session.get_one(models.FindingRow, name)
        query = (
            select(models.FindingEvent)
            .where(models.FindingEvent.finding_id == name)
            .order_by(models.FindingEvent.id)
        )
        events = session.scalars(query).all()
        for sentence in (*_steps(row, events), *_plans(row, events), *_about(session, row)):
            yield Breach(ROWS, f"finding {name}", sentence)
        session.expunge_all()


def _steps(row: models.FindingRow, events: Sequence[models.FindingEvent]) -> Iterator[str]:
    if not names_moment(row.id, row.opened_at):
        yield f"It was not opened at {row.opened_at}, as its name tells."
    if [event.at for event in events if event.action == "open"] != [row.opened_at]:
        yield f"Its history tells another time of its opening than {row.opened_at}."
    steps = [event for event in events if event.action in ACTIONS]
    state = ACTIONS[steps[-1].action].to if steps else "open"
    closed_at = steps[-1].at if steps and state not in ACTIVE else None
    if (row.state, row.closed_at) != (state, closed_at):
        yield f"It is {row.state} since {row.closed_at}; its history says {state}, {closed_at}."


def _plans(row: models.FindingRow, events: Sequence[models.FindingEvent]) -> Iterator[str]:
    details = [event.detail for event in events if event.action == "plan"]
    for name, value in (("owner", row.owner), ("note", row.note), ("due", row.due_on)):
        if value and not any(f"{name}: {value}" in detail for detail in details):
            yield f"Its {name} is {value}, and its history knows of no such plan."


def _about(session: Session, row: models.FindingRow) -> Iterator[str]:
    node = row.kind == FindingKind.BAD_NODE
    overtaken = row.kind == FindingKind.OVERTAKEN
    failure = row.kind == FindingKind.FAILURE
    if node != (row.worker is not None) or (node or overtaken) != (row.share is not None):
        yield "It is about a node, or it is not: kind, worker and share differ on that."
    if overtaken:
        yield from _overtaken(session, row)
    if failure:
        yield from _failing(session, row)
    query = (
        select(models.FindingSeries.first_bad_result, models.SeriesRow, models.Point.result_id)
        .join(models.SeriesRow, models.SeriesRow.id == models.FindingSeries.series_id)
        .outerjoin(
            models.Point,
            (models.Point.series_id == models.FindingSeries.series_id)
            & (models.Point.result_id == models.FindingSeries.first_bad_result),
        )
        .where(models.FindingSeries.finding_id == row.id)
    )
    links = session.execute(query).all()
    if not links and not (node or overtaken or failure):
        yield "It is about no series."
    if links and all(series.comparability != row.comparability for _, series, _ in links):
        yield "None of its series is of the hardware that it names."
    for result, series, point in links:
        if series.project != row.project:
            yield f"The series {series.id} is of another project."
        if point is None:
            yield f"The result {result} has no point in the series {series.id}."


def _overtaken(session: Session, row: models.FindingRow) -> Iterator[str]:
    """The case that leads and the one that led are of the hardware and the project of the row."""
    named = row.measured.get("series", ())
    series = [session.get(models.SeriesRow, series_id) for series_id in named]
    mine = row.comparability, row.project
    if len(series) != 2 or any(
        one is None or (one.comparability, one.project) != mine for one in series
    ):
        yield "It names no two cases of its hardware and project, a new best and a former one."


def _failing(session: Session, row: models.FindingRow) -> Iterator[str]:
    """The cases that fail are among those that failed, which are of the project of the row."""
    named = row.measured.get("series", ())
    series = [session.get(models.SeriesRow, series_id) for series_id in named]
    fail = row.measured.get("failing", ())
    if not fail or not set(fail) <= set(named) or len(row.measured.get("status", ())) != 1:
        yield "It does not say which of its cases fail, or in which way."
    if any(one is None or one.project != row.project for one in series):
        yield "It names cases that are none of its project."


def every_suspicion(session: Session) -> Iterator[Breach]:
    """11: a suspicion is about a point that there is, and what was asked because of it."""
    point = (models.Point.series_id == models.ConfirmationRow.series_id) & (
        models.Point.result_id == models.ConfirmationRow.first_bad_result
    )
    columns = (
        models.SeriesRow.case_key,
        models.ResultRow.revision,
        models.ResultRow.worker,
        models.Point.result_id,
    )
    query = select(models.ConfirmationRow, *columns).join(
        models.SeriesRow, models.SeriesRow.id == models.ConfirmationRow.series_id
    )
    query = query.join(
        models.ResultRow, models.ResultRow.id == models.ConfirmationRow.first_bad_result
    )
    query = query.outerjoin(models.Point, point)
    for row, case_key, revision, worker, there in session.execute(query):
        subject = f"confirmation {row.id}"
        if not names_moment(row.id, row.created_at):
            yield Breach(ROWS, subject, f"It was not made at {row.created_at}, as its name tells.")
        if (row.case_key, row.first_bad, row.worker) != (case_key, revision, worker) or not there:
            yield Breach(ROWS, subject, "The point that it is about is another one.")
        if (row.state == models.ConfirmationState.RUNNING) != (row.decided_at is None):
            yield Breach(ROWS, subject, f"It is {row.state}, and its time says otherwise.")
        made = select(models.ComparisonRow.id).where(
            models.ComparisonRow.source == f"{models.CONFIRMATIONS}{row.id}",
            models.ComparisonRow.baseline == row.last_good,
            models.ComparisonRow.contender == row.first_bad,
        )
        if sorted(session.scalars(made)) != sorted(row.comparisons):
            yield Breach(ROWS, subject, "Its comparisons are not those that were made for it.")


def shown_changes(session: Session) -> Iterator[Breach]:
    """11: the changes of a series that are shown are those of its analysis."""
    shown: dict[str, dict[str, dict[str, Any]]] = {}
    for change in session.scalars(select(models.ChangeRow).where(models.ChangeRow.present)):
        shown.setdefault(change.series_id, {})[change.id] = change.estimate
    for row in session.scalars(select(models.AnalysisRow)):
        settled = select(models.SettledWindow.changes).where(
            models.SettledWindow.series_id == row.series_id
        )
        windows = (*session.scalars(settled.order_by(models.SettledWindow.number)), row.newest)
        points = joined([tuple(ChangePoint(**fields) for fields in window) for window in windows])
        computed = Counter(_sizes(asdict(point)) for point in points)
        for name, estimate in shown.pop(row.series_id, {}).items():
            if not computed[_sizes(estimate)]:
                yield Breach(ROWS, f"change {name}", "The analysis of its series has no such one.")
            computed[_sizes(estimate)] -= 1
        if missing := +computed:
            yield Breach(ROWS, _hidden(session, row.series_id, missing), "It is not shown.")
    for name in (name for changes in shown.values() for name in changes):
        yield Breach(ROWS, f"change {name}", "Its series has no analysis.")


def _hidden(session: Session, series_id: str, missing: Counter[tuple[Any, ...]]) -> str:
    """Name the stored change that the analysis of a series has and that is marked as gone."""
    gone = models.ChangeRow.series_id == series_id, ~models.ChangeRow.present
    rows = session.scalars(select(models.ChangeRow).where(*gone).order_by(models.ChangeRow.id))
    names = (row.id for row in rows if missing[_sizes(row.estimate)])
    name = next(names, None)
    return f"A change of series {series_id}" if name is None else f"change {name}"


def _sizes(estimate: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(estimate.get(name) for name in ("effect", "before", "after", "evidence"))
