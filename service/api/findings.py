"""The routes of findings: list, read, act on and plan them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Query
from pydantic import Field, StringConstraints
from sqlalchemy import select

from benchmarks import contracts
from service import findings, models
from service.api import dependencies
from service.api.router import Noun
from service.auth.permissions import Permission
from service.database.paging import matching
from service.http.strict_route import Plain
from service.jobs.spent import spent_on
from service.schemas import findings as schemas
from service.schemas.costs import Spent
from service.schemas.jobs import Listing

router = Noun("/findings", "findings")

Actor = Annotated[
    str,
    StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f]*[^\x00-\x1f\s][^\x00-\x1f]*$"),
    contracts.Worded("must be 1 to 100 characters, not only blanks, and no control characters"),
]
Remark = Annotated[str, StringConstraints(max_length=2_000, pattern=r"^[^\x00]*$")]
Seen = Annotated[int, Field(strict=True, ge=1, le=2**31)]
"""The version of a finding that somebody looked at."""


class ActionRequest(contracts.Contract):
    """An action on a finding."""

    action: findings.ActionName
    actor: Actor
    """Who does it."""
    detail: Remark = ""
    """Why; kept in its history."""
    version: Seen | None = None
    """The version that was seen; if somebody has changed it since, the answer is 409."""


class PlanRequest(contracts.Contract):
    """The owner, note and due date of a finding. A field that is left out stays as it is."""

    actor: Actor
    owner: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f]*$")] | None = (
        None
    )
    note: Remark | None = None
    due_on: contracts.Day | None = None
    """Null, if it is sent, takes the due date away."""
    version: Seen | None = None


@router.get("")
@Permission.READ.required
def list_findings(
    session: dependencies.DatabaseSession,
    state: models.FindingState | None = None,
    kind: schemas.FindingKind | None = None,
    series: Annotated[contracts.Id | None, Query()] = None,
    active: bool | None = None,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 100,
) -> Listing[schemas.FindingSummary]:
    """List findings, the newest first; `active` keeps those that ask for attention."""
    conditions = matching({models.FindingRow.state: state, models.FindingRow.kind: kind})
    if active is not None:
        inside = models.FindingRow.state.in_(findings.ACTIVE)
        conditions.append(inside if active else ~inside)
    if series is not None:
        about = select(models.FindingSeries.finding_id).where(
            models.FindingSeries.series_id == series
        )
        conditions.append(models.FindingRow.id.in_(about))
    return Listing.of(findings.list_findings(session, *conditions, after=cursor, limit=limit))


@router.get("/report")
@Permission.READ.required
def read_report(
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    hours: Annotated[int, Query(ge=1, le=8_760, description="How far to look back."), Plain] = 24,
) -> schemas.MorningReport:
    """Read what was found lately, and how much of it is expected to be false."""
    since = now - timedelta(hours=hours)
    return schemas.MorningReport(
        since=since,
        opened=list(
            findings.list_findings(session, models.FindingRow.opened_at >= since, limit=500).items
        ),
        active=findings.count_active(session),
        expected_false=findings.expected_false_since(session, since),
    )


@router.get("/{finding_id}", responses=router.problems(404))
@Permission.READ.required
def read_finding(
    finding_id: dependencies.Id, session: dependencies.DatabaseSession
) -> schemas.FindingView:
    """Read a finding: its series, its evidence, and everything that was done with it."""
    return findings.load_finding(session, finding_id)


@router.get("/{finding_id}/cost", responses=router.problems(404))
@Permission.READ.required
def read_finding_cost(
    finding_id: dependencies.Id,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    prices: dependencies.Prices,
) -> Spent:
    """Read what a finding took of the devices, and its cost at the operator's prices.

    That is measuring it again, and its bisections; not the nights in which it was found.
    """
    return spent_on(session, models.FindingRow, finding_id, now, prices)


@router.post("/{finding_id}/actions", responses=router.problems(404, 409))
@Permission.TRIAGE.required
def act(
    finding_id: dependencies.Id,
    request: ActionRequest,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
) -> schemas.FindingView:
    """Acknowledge a finding, close it with a reason, or open it again."""
    findings.act(
        session,
        finding_id,
        request.action,
        request.actor,
        now,
        detail=request.detail,
        version=request.version,
    )
    return findings.load_finding(session, finding_id)


@router.patch("/{finding_id}", responses=router.problems(404, 409))
@Permission.TRIAGE.required
def plan(
    finding_id: dependencies.Id,
    request: PlanRequest,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
) -> schemas.FindingView:
    """Say who looks after a finding, until when, and what there is to say."""
    undated = "due_on" in request.model_fields_set and request.due_on is None
    chosen = findings.Plan(request.owner, request.note, request.due_on, undated)
    findings.plan(session, finding_id, chosen, request.actor, now, version=request.version)
    return findings.load_finding(session, finding_id)
