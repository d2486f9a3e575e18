"""Suites that are submitted by the clock."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from benchmarks.contracts import Name
from service import schedule, submissions
from service.access import audit
from service.api.answers import problems
from service.api.dependencies import DatabaseSession, Listing, Now
from service.api.noun import noun
from service.schedule import ScheduleRequest, ScheduleView
from service.submissions import Submitted

router = noun("/schedules", "schedules")

ScheduleName = Annotated[Name, Path()]


@router.get("")
def list_schedules(session: DatabaseSession) -> Listing[ScheduleView]:
    """List all schedules, by name."""
    return Listing(items=schedule.every(session), next_cursor=None)


@router.get("/{name}", responses=problems(404))
def read_schedule(name: ScheduleName, session: DatabaseSession) -> ScheduleView:
    """Read a schedule."""
    return schedule.load(session, name)


@router.put("/{name}")
def put_schedule(
    name: ScheduleName, request: ScheduleRequest, session: DatabaseSession, now: Now
) -> ScheduleView:
    """Make or change a schedule; it fires next at the first slot after now."""
    return schedule.put(session, name, request, now)


@router.delete("/{name}", status_code=204, responses=problems(404))
def delete_schedule(name: ScheduleName, session: DatabaseSession) -> None:
    """Forget a schedule; what it submitted stays."""
    schedule.delete(session, name)


@router.post("/{name}/fire", status_code=201, responses=problems(404))
def fire(name: ScheduleName, session: DatabaseSession, now: Now) -> Submitted:
    """Submit a schedule's suite now, beside its slots."""
    accepted = schedule.fire(session, name, now)
    audit.made(session, accepted.submission_id)
    return submissions.answer_of(session, accepted)
