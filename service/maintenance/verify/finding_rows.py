"""Checks what judging and people recorded: findings, suspicions, exclusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.findings import ACTIONS, ACTIVE, FindingKind
from service.findings.confirm.start import SOURCE
from service.maintenance.verify.agreement import ROWS, names_moment
from service.maintenance.verify.values import Breach
from service.models import (
    ComparisonRow,
    ConfirmationRow,
    ConfirmationState,
    Exclusion,
    FindingEvent,
    FindingRow,
    FindingSeries,
    Point,
    ResultRow,
    SeriesRow,
)


def every_finding(session: Session) -> Iterator[Breach]:
    """11: a finding is as its history and its series say."""
    for name in session.scalars(select(FindingRow.id).order_by(FindingRow.id)).all():
        row = session.get_one(FindingRow, name)
        told = select(FindingEvent).where(FindingEvent.finding_id == name).order_by(FindingEvent.id)
        events = session.scalars(told).all()
        for sentence in (*_steps(row, events), *_plans(row, events), *_about(session, row)):
            yield Breach(ROWS, f"finding {name}", sentence)
        session.expunge_all()


def _steps(row: FindingRow, events: Sequence[FindingEvent]) -> Iterator[str]:
    if not names_moment(row.id, row.opened_at):
        yield f"It was not opened at {row.opened_at}, as its name tells."
    for action, at in (("open", row.opened_at), ("announce", row.announced_at)):
        said = [event.at for event in events if event.action == action]
        if said != ([] if at is None else [at]):
            yield f"Its history tells another time of its {action} than {at}."
    steps = [event for event in events if event.action in ACTIONS]
    state = ACTIONS[steps[-1].action].to if steps else "open"
    closed_at = steps[-1].at if steps and state not in ACTIVE else None
    if (row.state, row.closed_at) != (state, closed_at):
        yield f"It is {row.state} since {row.closed_at}; its history says {state}, {closed_at}."


def _plans(row: FindingRow, events: Sequence[FindingEvent]) -> Iterator[str]:
    """Yield each part of the plan that the history lacks in the words of `lifecycle.plan`."""
    told = [event.detail for event in events if event.action == "plan"]
    for name, value in (("owner", row.owner), ("note", row.note), ("due", row.due_on)):
        if value and not any(f"{name}: {value}" in each for each in told):
            yield f"Its {name} is {value}, and its history knows of no such plan."


def _about(session: Session, row: FindingRow) -> Iterator[str]:
    node = row.kind == FindingKind.BAD_NODE
    if node != (row.worker is not None) or node != (row.share is not None):
        yield "It is about a node, or it is not: kind, worker and share differ on that."
    wanted = (
        select(FindingSeries.first_bad_result, SeriesRow, Point.result_id)
        .join(SeriesRow, SeriesRow.id == FindingSeries.series_id)
        .outerjoin(
            Point,
            (Point.series_id == FindingSeries.series_id)
            & (Point.result_id == FindingSeries.first_bad_result),
        )
        .where(FindingSeries.finding_id == row.id)
    )
    links = session.execute(wanted).all()
    if not links and not node:
        yield "It is about no series."
    for result, series, point in links:
        if (series.project, series.comparability) != (row.project, row.comparability):
            yield f"The series {series.id} is of another project or of other hardware."
        if point is None:
            yield f"The result {result} has no point in the series {series.id}."


def every_suspicion(session: Session) -> Iterator[Breach]:
    """11: a suspicion is about a point that there is, and what was asked because of it."""
    point = (Point.series_id == ConfirmationRow.series_id) & (
        Point.result_id == ConfirmationRow.first_bad_result
    )
    columns = (SeriesRow.case_key, ResultRow.revision, ResultRow.worker, Point.result_id)
    wanted = select(ConfirmationRow, *columns).join(
        SeriesRow, SeriesRow.id == ConfirmationRow.series_id
    )
    wanted = wanted.join(ResultRow, ResultRow.id == ConfirmationRow.first_bad_result)
    wanted = wanted.outerjoin(Point, point)
    for row, case_key, revision, worker, there in session.execute(wanted):
        subject = f"confirmation {row.id}"
        if not names_moment(row.id, row.created_at):
            yield Breach(ROWS, subject, f"It was not made at {row.created_at}, as its name tells.")
        if (row.case_key, row.first_bad, row.worker) != (case_key, revision, worker) or not there:
            yield Breach(ROWS, subject, "The point that it is about is another one.")
        if (row.state == ConfirmationState.RUNNING) != (row.decided_at is None):
            yield Breach(ROWS, subject, f"It is {row.state}, and its time says otherwise.")
        asked = select(ComparisonRow.id).where(
            ComparisonRow.source == f"{SOURCE}:{row.id}",
            ComparisonRow.baseline == row.last_good,
            ComparisonRow.contender == row.first_bad,
        )
        if sorted(session.scalars(asked)) != sorted(row.comparisons):
            yield Breach(ROWS, subject, "Its comparisons are not those that were made for it.")


def every_exclusion(session: Session) -> Iterator[Breach]:
    """11: an exclusion was made when its name tells, and was undone by somebody or not at all."""
    for row in session.scalars(select(Exclusion).order_by(Exclusion.id)):
        if not names_moment(row.id, row.excluded_at):
            told = f"It was not made at {row.excluded_at}, as its name tells."
            yield Breach(ROWS, f"exclusion {row.id}", told)
        if (row.undone_at is None) != (row.undone_by is None):
            yield Breach(ROWS, f"exclusion {row.id}", "It was undone by nobody, or at no time.")
