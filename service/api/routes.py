"""Joins the nouns into one router."""

from fastapi import APIRouter

from service.api import (
    audit,
    catalog,
    changes,
    comparisons,
    confirmations,
    enrolments,
    environments,
    findings,
    health,
    jobs,
    leases,
    results,
    schedules,
    series,
    submissions,
    tokens,
    workers,
)
from service.api.answers import EVERYWHERE, problems

router = APIRouter(prefix="/api/v1", responses=problems(*EVERYWHERE))
for _noun in (
    leases,  # first, because routes are tried in turn and most calls are these
    health,
    catalog,
    submissions,
    jobs,
    workers,
    results,
    series,
    environments,
    changes,
    comparisons,
    findings,
    confirmations,
    schedules,
    tokens,
    enrolments,
    audit,
):
    router.include_router(_noun.router)
