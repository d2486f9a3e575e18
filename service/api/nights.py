"""The routes of nights: what the schedules of a date measured, and what that showed."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from fastapi import Path, Query

from benchmarks.contracts import Worded
from service.api import dependencies
from service.api.router import Noun
from service.auth.permissions import Permission
from service.findings.nights import announce, facts
from service.schemas.errors import Invalid
from service.schemas.jobs import Listing
from service.schemas.nights import NightReport, NightSummary

router = Noun("/nights", "nights")

NightName = Annotated[
    str,
    Path(pattern=r"^(newest|[0-9]{4}-[0-9]{2}-[0-9]{2})$", description="A date, or `newest`."),
    Worded("must be a date such as 2026-11-27, or newest"),
]
OfProject = Annotated[
    str | None,
    Query(max_length=64, description="Of this project alone; empty: what belongs to none."),
]


@router.get("")
@Permission.READ.required
def list_nights(
    session: dependencies.DatabaseSession,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 50,
) -> Listing[NightSummary]:
    """List the nights that were reported, the newest first."""
    return Listing.of(announce.list_reported(session, cursor, limit))


@router.get("/{night}", responses=router.problems(404))
@Permission.READ.required
def read_night(
    night: NightName,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    prices: dependencies.Prices,
    project: OfProject = None,
) -> NightReport:
    """Read what is known of a night by now: changes, recoveries, gaps, cost and coverage.

    A night has the slots of one date where each schedule's clock hangs, and lasts until those of
    the next date begin, at most a day.
    """
    return facts.gather(session, night_of(session, night, project), now, project, prices)


def night_of(session: dependencies.DatabaseSession, name: str, project: str | None) -> date:
    """Read the name of a night.

    Raises:
        Invalid: it is no date.
        NotFound: the newest night is asked for, and there is none.
    """
    if name == "newest":
        return facts.newest(session, project)
    try:
        night = date.fromisoformat(name)
    except ValueError:
        raise Invalid(f"{name} is no date.") from None
    if not 1990 <= night.year < 2200:
        raise Invalid("A night must lie between the years 1990 and 2200.")
    return night
