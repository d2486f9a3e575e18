"""Reads the stored news of a pull request, for the sinks that write on it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import is_commit
from service import models
from service.analysis.statement import Statement
from service.outbox.events import noun_of
from service.schemas import bisections, comparisons
from service.schemas import findings as schemas
from service.wording import statements
from service.wording.pull_request import ShownFinding, ShownGate

_MOST = 50
"""Gates of one pull request that are looked at, the newest first."""


def gates_of(session: Session, key: str, address: str) -> list[ShownGate]:
    """The gates of a pull request, the newest first; links begin with ``address``."""
    return [_gate(row, address) for row in rows_of(session, key)]


def rows_of(session: Session, key: str) -> Sequence[models.ComparisonRow]:
    """The comparisons that were asked for a pull request, the newest first."""
    started = select(models.OutboxEvent.subject).where(
        models.OutboxEvent.pull_request == key,
        models.OutboxEvent.kind == models.EventKind.COMPARISON_STARTED,
    )
    own = models.ComparisonRow
    query = select(own).where(own.id.in_(started)).order_by(own.id.desc()).limit(_MOST)
    return session.scalars(query).all()


def newest(gates: Sequence[ShownGate]) -> list[ShownGate]:
    """Of the gates at the newest head, the newest of each name."""
    named: dict[str, ShownGate] = {}
    for gate in gates:
        if gate.head == gates[0].head:
            named.setdefault(gate.name, gate)
    return list(named.values())


def _gate(row: models.ComparisonRow, address: str) -> ShownGate:
    decision = None if row.decision is None else statements.decision_of(row.decision)
    return ShownGate(
        row.id,
        row.parsed_request,
        comparisons.ComparisonState(row.state),
        len(row.cases),
        decision,
        f"{address}/comparisons/{row.id}",
    )


def finding_of(session: Session, event: models.OutboxEvent) -> str | None:
    """The id of the finding that an event is about; None if it is about none."""
    if noun_of(event.kind) == "finding":
        return event.subject
    row = session.get(models.BisectionRow, event.subject)
    return None if row is None else row.finding_id


def shown_finding(session: Session, finding_id: str, address: str) -> ShownFinding | None:
    """A confirmed regression of the code that one commit made; None if it is none."""
    row = session.get(models.FindingRow, finding_id)
    if row is None or row.kind != schemas.FindingKind.REGRESSION or row.cause != schemas.Cause.CODE:
        return None
    if row.certainty != schemas.Certainty.CONFIRMED or (commit := _commit(session, row)) is None:
        return None
    case_key = session.scalars(
        select(models.SeriesRow.case_key)
        .join(models.FindingSeries, models.FindingSeries.series_id == models.SeriesRow.id)
        .where(models.FindingSeries.finding_id == row.id)
        .order_by(models.FindingSeries.place)
    ).first()
    says = Statement.read(row.says)
    is_open = row.state in (schemas.FindingState.OPEN, schemas.FindingState.ACKNOWLEDGED)
    return ShownFinding(
        "open" if is_open else row.state,
        statements.headline_of(says),
        statements.say(says),
        case_key or "",
        *commit,
        f"{address}/findings/{row.id}",
    )


def _commit(session: Session, row: models.FindingRow) -> tuple[str, str] | None:
    """The commit that made a finding, and its parent: a bisection's culprit, or the only one."""
    own = models.BisectionRow
    done = own.finding_id == row.id, own.state == bisections.BisectionState.DONE
    for bisection in session.scalars(select(own).where(*done).order_by(own.id.desc())):
        decision = bisection.decision or {}
        if decision.get("outcome") == bisections.BisectionOutcome.CULPRIT:
            commits = bisections.BisectionRequest.model_validate(bisection.request).commits
            place = int(decision["first"])
            return commits[place].revision, commits[place - 1].revision
    between = session.get(models.CommitRangeRow, (row.last_good, row.first_bad))
    if between is None or row.last_good is None or len(between.commits) != 1:
        return None
    if not is_commit(row.first_bad):
        return None
    return row.first_bad, row.last_good
