"""The routes of thresholds: from which size on changes are reported."""

from __future__ import annotations

from typing import Annotated

from benchmarks import contracts
from service.api import dependencies
from service.api.findings import Actor
from service.api.results import Reason
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.findings import threshold_table
from service.schemas.jobs import Listing
from service.schemas.policy import SomeShare
from service.schemas.thresholds import Never, ThresholdView

router = Noun("/thresholds", "findings")


class ThresholdRequest(contracts.Contract):
    """The scope of a threshold and its size; a part of the scope left out takes in everything."""

    project: contracts.Name | None = None
    workload: contracts.Workload | None = None
    metric: contracts.Name | None = None
    series_id: contracts.Id | None = None
    """Named alone: a series has the other three."""
    least_effect: Annotated[
        SomeShare | Never,
        contracts.Worded('must be a share below 1, such as 0.03 or "3%", or "never"'),
    ]
    """Smaller changes, as a share of the level before, open no finding."""
    reason: Reason
    actor: Actor


@router.get("")
@Permission.READ.required
def list_thresholds(session: dependencies.DatabaseSession) -> Listing[ThresholdView]:
    """List the thresholds that were chosen; where none is about a series, its noise decides.

    Of those about a series the nearest decides: that of the series, of its project, of its
    workload, of its metric, in this order.
    """
    return Listing(items=threshold_table.list_thresholds(session), next_cursor=None)


@router.put("", responses=router.problems(404))
@Permission.ADMIN.required
def put_threshold(
    request: ThresholdRequest, session: dependencies.DatabaseSession, now: dependencies.Now
) -> ThresholdView:
    """Set the threshold of a scope, or replace it; it holds for what is analysed from now on."""
    scope = threshold_table.Scope(
        project=request.project or "",
        workload=request.workload or "",
        metric=request.metric or "",
        series_id=request.series_id,
    )
    choice = threshold_table.Choice(request.least_effect, request.actor, request.reason)
    rule = threshold_table.put(session, scope, choice, now)
    audit.made(session, threshold_table.said(rule))
    return rule


@router.delete("/{threshold_id}", status_code=204, responses=router.problems(404))
@Permission.ADMIN.required
def remove_threshold(threshold_id: dependencies.Id, session: dependencies.DatabaseSession) -> None:
    """Remove a threshold: the next wider one, or the noise, decides from now on."""
    threshold_table.remove(session, threshold_id)
