"""The router that all pages share, and the number that they show beside Findings."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, params
from fastapi.responses import HTMLResponse

from service import findings
from service.api.dependencies import DatabaseSession as Reading
from service.dashboard.rendering import partial
from service.http.strict_route import GuardedRoute


def count(request: Request, session: Reading) -> None:
    """Note how many findings ask for attention; a part of a page does not show it."""
    if not partial(request):
        request.state.attention = findings.count_active(session)


COUNTED = Depends(count, scope="function")
"""For the router of pages that say it."""


def page_router(*more: params.Depends) -> APIRouter:
    """A router for pages, which the API's description does not list."""
    return APIRouter(
        include_in_schema=False,
        route_class=GuardedRoute,
        default_response_class=HTMLResponse,
        dependencies=more,
    )
