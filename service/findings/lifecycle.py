"""The only module that changes a finding: by compare-and-swap, with a record of each step.

`ACTIONS` says what a person may do with a finding: each action with its states and its words.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import update
from sqlalchemy.orm import Session

from service import models
from service.analysis.attribution import Attribution
from service.analysis.statement import Statement
from service.database.session import found, new_id, rows
from service.findings.rules import ACTIVE
from service.history.series_history import PlacedChange
from service.outbox import events
from service.schemas.errors import Conflict
from service.wording import statements


class ActionName(StrEnum):
    """The actions by their names in the API, in the order in which they are offered."""

    ACKNOWLEDGE = "acknowledge"
    EXPECT = "expect"
    RESOLVE = "resolve"
    ENVIRONMENT = "environment"
    INFRASTRUCTURE = "infrastructure"
    NOT_REPRODUCED = "not_reproduced"
    WITHDRAW = "withdraw"
    REOPEN = "reopen"


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a person may do with a finding."""

    to: models.FindingState
    seen: frozenset[models.FindingState]
    """States in which it makes sense."""
    title: str
    meaning: str
    past: str
    """What its record says: "Ann acknowledged it"."""


ACTIONS: dict[str, Action] = {
    ActionName.ACKNOWLEDGE: Action(
        models.FindingState.ACKNOWLEDGED,
        frozenset({models.FindingState.OPEN}),
        "Acknowledge",
        "Somebody looks after it.",
        "acknowledged it",
    ),
    ActionName.EXPECT: Action(
        models.FindingState.EXPECTED,
        ACTIVE,
        "Expected: new baseline",
        "The change is wanted: the new level is the baseline.",
        "declared it expected: the new level is the baseline",
    ),
    ActionName.RESOLVE: Action(
        models.FindingState.RESOLVED, ACTIVE, "Resolved", "Its cause is gone.", "resolved it"
    ),
    ActionName.ENVIRONMENT: Action(
        models.FindingState.ENVIRONMENT,
        ACTIVE,
        "Environment",
        "The environment changed, not the code.",
        "put it down to the environment",
    ),
    ActionName.INFRASTRUCTURE: Action(
        models.FindingState.INFRASTRUCTURE,
        ACTIVE,
        "Infrastructure",
        "A node or its surroundings were at fault.",
        "put it down to the infrastructure",
    ),
    ActionName.NOT_REPRODUCED: Action(
        models.FindingState.NOT_REPRODUCED,
        ACTIVE,
        "Not reproduced",
        "It was measured again and is not there.",
        "declared it not reproduced",
    ),
    ActionName.WITHDRAW: Action(
        models.FindingState.WITHDRAWN, ACTIVE, "Withdraw", "It was never there.", "withdrew it"
    ),
    ActionName.REOPEN: Action(
        models.FindingState.OPEN,
        frozenset(models.FindingState) - {models.FindingState.OPEN},
        "Reopen",
        "It is back, or that was a mistake.",
        "reopened it",
    ),
}
STEPS = {
    "open": "found it",
    "join": "added series",
    "leave": "took out series that a slow worker alone had moved",
    "move": "moved it",
    "plan": "planned",
    **{name: action.past for name, action in ACTIONS.items()},
}
"""Everything that the history of a finding may record, in the past tense."""


_TOLD = {
    ActionName.WITHDRAW: models.EventKind.FINDING_WITHDRAWN,
    ActionName.REOPEN: models.EventKind.FINDING_REOPENED,
}
"""Actions that other programs are told of, whoever did them."""
_OF_NODES = {
    models.EventKind.FINDING_OPENED: models.EventKind.NODE_ILL,
    models.EventKind.FINDING_REOPENED: models.EventKind.NODE_ILL,
    models.EventKind.FINDING_RECOVERED: models.EventKind.NODE_WELL,
}
"""Of a finding about a node those are told who look after nodes, and not who look after code."""

log = logging.getLogger(__name__)

SYSTEM_ACTOR = "throughline"
"""The actor of what nobody did by hand."""
_ATTRIBUTION = TypeAdapter(Attribution)


@dataclass(frozen=True, slots=True)
class Plan:
    """The owner, note and due date to set on a finding; None leaves a field as it is."""

    owner: str | None = None
    note: str | None = None
    due_on: date | None = None
    undated: bool = False
    """Whether the due date is taken away."""


def open_finding(session: Session, now: datetime, says: Statement, **known: Any) -> str:
    """Store a new finding, of which ``known`` gives what it is; its id."""
    row = models.FindingRow(
        id=new_id(now),
        state=models.FindingState.OPEN,
        owner="",
        note="",
        due_on=None,
        opened_at=now,
        closed_at=None,
        version=1,
        says=says.stored(),
        **known,
    )
    session.add(row)
    session.flush()
    record(session, row.id, "open", now, says=says)
    _tell(session, models.EventKind.FINDING_OPENED, row, statements.say(says), now)
    log.warning("finding %s: %s", row.id, statements.say(says))
    return row.id


def act(
    session: Session,
    finding_id: str,
    name: str,
    actor: str,
    now: datetime,
    *,
    detail: str = "",
    version: int | None = None,
) -> None:
    """Do one of `ACTIONS`; with ``version`` only if nobody has changed the finding since.

    Raises:
        NotFound: there is no such finding.
        Conflict: it is not in a state for that, or somebody was faster.
    """
    action = ACTIONS[name]
    row = _seen(session, finding_id, version)
    if models.FindingState(row.state) not in action.seen:
        raise Conflict(f"A finding that is {row.state} cannot be changed by {name}.")
    was_closed, closed_at = row.closed_at is not None, None if action.to in ACTIVE else now
    _change(session, row, {"state": action.to, "closed_at": closed_at})
    record(session, finding_id, name, now, actor=actor, detail=detail)
    recovered = name == ActionName.RESOLVE and actor == SYSTEM_ACTOR
    kind = models.EventKind.FINDING_RECOVERED if recovered else _TOLD.get(ActionName(name))
    if kind and (was_closed or action.to not in ACTIVE):
        _tell(session, kind, row, f"{actor} {action.past}{detail and f': {detail}'}", now)


def plan(
    session: Session,
    finding_id: str,
    planned: Plan,
    actor: str,
    now: datetime,
    *,
    version: int | None = None,
) -> None:
    """Say who looks after a finding, until when, and what there is to say.

    Raises:
        NotFound: there is no such finding.
        Conflict: somebody was faster.
    """
    row = _seen(session, finding_id, version)
    fields = {"owner": planned.owner, "note": planned.note, "due_on": planned.due_on}
    values: dict[str, Any] = {
        name: value
        for name, value in fields.items()
        if value is not None and value != getattr(row, name)
    }
    if planned.undated and row.due_on is not None:
        values["due_on"] = None
    if not values:
        return
    _change(session, row, values)
    said = "; ".join(
        f"{name.removesuffix('_on')}: {value or 'none'}" for name, value in values.items()
    )
    record(session, finding_id, "plan", now, actor=actor, detail=said)
    if values.get("owner"):
        _tell(session, models.EventKind.FINDING_ASSIGNED, row, f"{actor} planned: {said}", now)


def attributed(attribution: Attribution) -> dict[str, Any]:
    """The columns of a finding that tell its attribution."""
    evidence = _ATTRIBUTION.dump_python(attribution, mode="json", exclude={"says"})
    return {"cause": attribution.cause, "attribution": evidence}


def revise(session: Session, row: models.FindingRow, attribution: Attribution) -> None:
    """Say again what a finding is, now that more is known of it."""
    restate(session, row, attribution.says, **attributed(attribution))


def restate(session: Session, row: models.FindingRow, says: Statement, **known: Any) -> None:
    """Say again what a finding is, with what else of it has changed."""
    _change(session, row, {"says": says.stored()} | known)


def mark_drift(session: Session, row: models.FindingRow) -> None:
    """Say that the change of a finding came little by little."""
    if not row.drifts:
        _change(session, row, {"drifts": True})


def move(session: Session, row: models.FindingRow, to: PlacedChange, now: datetime) -> None:
    """Say where a finding begins, now that it is better known."""
    place = {"last_good": to.last_good, "first_bad": to.first_bad, "first_bad_at": to.first_bad_at}
    was = (row.last_good, row.first_bad)
    _change(session, row, place)
    if (row.last_good, row.first_bad) != was:
        old = {"old_last_good": was[0], "old_first_bad": was[1]}
        says = Statement.of("moved", **old, last_good=row.last_good, first_bad=row.first_bad)
        record(session, row.id, "move", now, says=says)


def record(
    session: Session,
    finding_id: str,
    action: str,
    now: datetime,
    *,
    actor: str = SYSTEM_ACTOR,
    detail: str = "",
    says: Statement | None = None,
) -> None:
    """Write down what was done: ``says`` if the service did it, in ``detail`` otherwise."""
    event = models.FindingEvent(
        finding_id=finding_id, at=now, actor=actor, action=action, detail=detail
    )
    event.says = None if says is None else says.stored()
    session.add(event)
    session.flush()


def _tell(
    session: Session, kind: models.EventKind, row: models.FindingRow, sentence: str, now: datetime
) -> None:
    """Have other programs told of a step."""
    says = Statement.read(row.says)
    if row.worker is not None:
        kind = _OF_NODES.get(kind, kind)
    event = events.News(
        kind,
        statements.headline_of(says),
        sentence,
        row.id,
        row.project,
        size=_size(row, says),
        workload=_workload(says),
        outcome=row.kind,
    )
    events.write(session, event, now)


def _size(row: models.FindingRow, says: Statement) -> float | None:
    headline = says.facts.get("headline")
    most = headline.facts.get("most") if isinstance(headline, Statement) else None
    return most if row.share is None and isinstance(most, float) else row.share


def _workload(says: Statement) -> str:
    headline = says.facts.get("headline", says)
    cells = headline.facts.get("cells", headline) if isinstance(headline, Statement) else says
    return str(cells.facts.get("workload", "")) if isinstance(cells, Statement) else ""


def _seen(session: Session, finding_id: str, version: int | None) -> models.FindingRow:
    row = found(session, models.FindingRow, finding_id, populate_existing=True)
    if version is not None and row.version != version:
        raise Conflict("Somebody has changed this finding since; read it again.")
    return row


def _change(session: Session, row: models.FindingRow, values: dict[str, Any]) -> None:
    seen = models.FindingRow.id == row.id, models.FindingRow.version == row.version
    change = update(models.FindingRow).where(*seen).values(values | {"version": row.version + 1})
    if not rows(session, change):
        raise Conflict("Somebody has changed this finding just now; read it again.")
    session.refresh(row)
