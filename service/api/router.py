"""The router settings that all routes of the API share."""

from __future__ import annotations

from fastapi import APIRouter

from service.api import openapi
from service.http.strict_route import StrictRoute


class Noun(APIRouter):
    """The routes of what lies under ``/api/v1`` and ``path``, under a heading of the description.

    They are whole and belong to no application: FastAPI would build those of a router that is
    included anew for each, and look through two levels of routers with every request.
    """

    problems = staticmethod(openapi.problems)

    def __init__(self, path: str, tag: str, route: type[StrictRoute] = StrictRoute) -> None:
        always = openapi.problems(*openapi.EVERYWHERE)
        super().__init__(prefix=f"/api/v1{path}", tags=[tag], route_class=route, responses=always)
