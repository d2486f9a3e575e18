"""The permissions: one table for routes, one for kinds of token.

The service does not start if a route has no row. Pages of the dashboard and the static files have
rows as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from service.models.access import TokenKind


class Permission(StrEnum):
    """The permission that a route asks for."""

    OPEN = "open"
    """Nothing: whoever reaches the service."""
    READ = "read"
    SUBMIT = "submit"
    """Have something measured."""
    TRIAGE = "triage"
    """Say what is to be thought of what was found: act on findings, take results out of histories.

    Whoever may is no program that has its own change measured. A CI token that could call its own
    regression expected, or take out the results that show it, would judge itself.
    """
    WORK = "work"
    """Take jobs and deliver results."""
    ADMIN = "admin"
    """Change what is measured by the clock, and who may do what."""


EVERYTHING = frozenset(Permission)
MAY: Mapping[TokenKind, frozenset[Permission]] = {
    TokenKind.READ: frozenset({Permission.OPEN, Permission.READ}),
    TokenKind.SUBMIT: frozenset({Permission.OPEN, Permission.READ, Permission.SUBMIT}),
    TokenKind.WORKER: frozenset({Permission.OPEN, Permission.WORK}),
    TokenKind.ADMIN: EVERYTHING,
}
BOUND = frozenset({TokenKind.READ, TokenKind.SUBMIT})
"""Kinds of which a token may be bound to a project."""
AUDITED = frozenset({Permission.SUBMIT, Permission.TRIAGE, Permission.ADMIN})
"""What is written down; what workers do stands in the log of the jobs."""

SAFE = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""

_API = "/api/v1"
_ATTEMPT = "/jobs/{job_id}/attempts/{number}"
_CALLS: Mapping[Permission, str] = {
    Permission.OPEN: """
        GET /health
        POST /enrolments/redeem
        GET /openapi.json
        HEAD /openapi.json
    """,
    Permission.READ: """
        GET /catalog
        GET /changes
        GET /comparisons
        GET /comparisons/{comparison_id}
        GET /confirmations
        GET /environments/{digest}
        GET /findings
        GET /findings/report
        GET /findings/{finding_id}
        GET /jobs
        GET /jobs/{job_id}
        GET /results
        GET /results/{result_id}
        GET /results/{result_id}/exclusions
        GET /results/{result_id}/trace
        GET /schedules
        GET /schedules/{name}
        GET /series
        GET /series/{series_id}
        GET /series/{series_id}/judgement
        GET /series/{series_id}/points
        GET /submissions
        GET /submissions/{submission_id}
        GET /submissions/{submission_id}/report
        GET /workers
    """,
    Permission.SUBMIT: """
        POST /comparisons
        POST /comparisons/{comparison_id}/cancel
        POST /jobs
        POST /jobs/{job_id}/cancel
        POST /schedules/{name}/fire
        POST /submissions
    """,
    Permission.TRIAGE: """
        POST /findings/{finding_id}/actions
        PATCH /findings/{finding_id}
        DELETE /results/{result_id}/exclusion
        PUT /results/{result_id}/exclusion
    """,
    Permission.WORK: f"""
        POST /leases
        POST {_ATTEMPT}/heartbeat
        POST {_ATTEMPT}/release
        POST {_ATTEMPT}/result
        POST {_ATTEMPT}/start
        POST {_ATTEMPT}/trace
        PUT /workers/{{name}}
    """,
    Permission.ADMIN: """
        DELETE /schedules/{name}
        PUT /schedules/{name}
        GET /audit
        POST /enrolments
        GET /tokens
        POST /tokens
        POST /tokens/{token_id}/revoke
        POST /tokens/{token_id}/rotate
    """,
}
_PAGES: Mapping[Permission, str] = {
    Permission.OPEN: """
        GET /assets/{digest}/{name}
        GET /sign-in
        POST /sign-in
        POST /sign-out
    """,
    Permission.READ: """
        GET /
        GET /compare
        GET /comparisons
        GET /comparisons/{comparison_id}
        GET /findings
        GET /findings/{finding_id}
        GET /jobs
        GET /jobs/{job_id}
        GET /runs/{result_id}
        GET /schedules
        GET /series/{series_id}
        GET /series/{series_id}/points.csv
        GET /workers
    """,
}


def _rows(listed: Mapping[Permission, str], prefix: str) -> Iterable[tuple[str, Permission]]:
    for permission, lines in listed.items():
        for line in filter(None, map(str.strip, lines.splitlines())):
            method, _, path = line.partition(" ")
            yield f"{method} {prefix}{path}", permission


ROUTES: Mapping[str, Permission] = {**dict(_rows(_CALLS, _API)), **dict(_rows(_PAGES, ""))}
"""``METHOD /path/{template}`` to what it asks for."""
