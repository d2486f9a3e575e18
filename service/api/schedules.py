"""Suites that are submitted by the clock."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from benchmarks.contracts import Name
from service.api import dependencies
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.jobs import schedules, submissions
from service.schemas.jobs import Listing, ScheduleView, Submitted

router = Noun("/schedules", "schedules")

ScheduleName = Annotated[Name, Path()]


@router.get("")
@Permission.READ.required
def list_schedules(session: dependencies.DatabaseSession) -> Listing[ScheduleView]:
    """List all schedules, by name."""
    return Listing(items=schedules.every(session), next_cursor=None)


@router.get("/{name}", responses=router.problems(404))
@Permission.READ.required
def read_schedule(name: ScheduleName, session: dependencies.DatabaseSession) -> ScheduleView:
    """Read a schedule."""
    return schedules.load(session, name)


@router.put("/{name}")
@Permission.ADMIN.required
def put_schedule(
    name: ScheduleName,
    request: schedules.ScheduleRequest,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
) -> ScheduleView:
    """Make or change a schedule; it fires next at the first slot after now.

    With the rule `ref:TARGET:REF`, such as `ref:nanogpt:main`, a slot measures the commit at which
    workers see the ref of their target. It waits while no worker does. It submits nothing if the
    schedule has measured every case at that commit with the same `requires`, awaits results of it,
    or found within a day that it cannot be built, unless `again` is set. `note` says so.
    """
    return schedules.put(session, name, request, now)


@router.delete("/{name}", status_code=204, responses=router.problems(404))
@Permission.ADMIN.required
def delete_schedule(name: ScheduleName, session: dependencies.DatabaseSession) -> None:
    """Forget a schedule; what it submitted stays."""
    schedules.delete(session, name)


@router.post("/{name}/fire", status_code=201, responses=router.problems(404, 409))
@Permission.SUBMIT.required
def fire(
    name: ScheduleName, session: dependencies.DatabaseSession, now: dependencies.Now
) -> Submitted:
    """Submit a schedule's suite now, beside its slots, whatever it has measured.

    409 while no worker says which commit the schedule's ref is at.
    """
    accepted = schedules.fire(session, name, now)
    audit.made(session, accepted.submission_id)
    return submissions.answer_of(session, accepted)
