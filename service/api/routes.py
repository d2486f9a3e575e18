"""Every route of the API, in the order in which they are tried."""

from starlette.routing import BaseRoute

from service.api import (
    audit,
    best,
    bisections,
    catalog,
    changes,
    comparisons,
    confirmations,
    enrolments,
    environments,
    findings,
    forges,
    health,
    imports,
    jobs,
    leases,
    nights,
    outbox,
    results,
    schedules,
    series,
    submissions,
    thresholds,
    tokens,
    workers,
)

NOUNS = (
    leases,  # first, because most calls are these
    health,
    catalog,
    submissions,
    jobs,
    workers,
    results,
    series,
    imports,
    best,
    environments,
    changes,
    comparisons,
    bisections,
    findings,
    thresholds,
    confirmations,
    schedules,
    nights,
    outbox,
    forges,
    tokens,
    enrolments,
    audit,
)
ROUTES: tuple[BaseRoute, ...] = tuple(route for noun in NOUNS for route in noun.router.routes)
