"""The router settings that all routes of the API share."""

from __future__ import annotations

from fastapi import APIRouter

from service.api.openapi import EVERYWHERE, problems
from service.http.strict_route import StrictRoute


def noun(path: str, tag: str, route: type[StrictRoute] = StrictRoute) -> APIRouter:
    """A router for what lies under ``/api/v1`` and ``path``, under a heading of the description.

    Its routes are whole and belong to no application: FastAPI would build those of a router that
    is included anew for each, and look through two levels of routers with every request.
    """
    return APIRouter(
        prefix=f"/api/v1{path}", tags=[tag], route_class=route, responses=problems(*EVERYWHERE)
    )
