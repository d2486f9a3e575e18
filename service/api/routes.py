"""Joins the nouns into one router."""

from fastapi import APIRouter

from service.api import (
    catalog,
    changes,
    comparisons,
    confirmations,
    environments,
    findings,
    health,
    jobs,
    leases,
    results,
    schedules,
    series,
    submissions,
    workers,
)
from service.errors import Problem

_PROBLEM = {"content": {"application/problem+json": {}}, "model": Problem}

router = APIRouter(
    prefix="/api/v1",
    responses={
        413: {"description": "The body is too large.", **_PROBLEM},
        422: {"description": "The request says something that cannot be.", **_PROBLEM},
        503: {"description": "The database cannot be used; try again.", **_PROBLEM},
    },
)
for _noun in (
    health,
    catalog,
    submissions,
    jobs,
    leases,
    workers,
    results,
    series,
    environments,
    changes,
    comparisons,
    findings,
    confirmations,
    schedules,
):
    router.include_router(_noun.router)
