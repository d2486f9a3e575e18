"""Hands endpoints the document that the gate has parsed, and refuses parameters nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from service.errors import Invalid

DOCUMENT = "throughline.document"
"""Where in the scope the parsed body is."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _Parsed(Request):
    """A request whose JSON was parsed by the gate; parsing it again would parse it otherwise."""

    async def json(self) -> Any:
        return self.scope[DOCUMENT]


class StrictRoute(APIRoute):
    """A route of the API; `service.api.noun` makes routers of them."""

    def get_route_handler(self) -> Handler:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()
        known = _parameters(self.dependant)

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                _check_known(request.query_params.keys(), known)
            return await handle(_Parsed(request.scope, request.receive))

        return strict


def _check_known(given: Iterable[str], known: set[str]) -> None:
    if not known.issuperset(given):
        raise Invalid(
            "The query has a parameter that this call does not know; "
            "/api/v1/openapi.json lists those that it knows."
        )


def _parameters(dependant: Dependant) -> set[str]:
    """The names of all query parameters that an endpoint or what it depends on reads."""
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_parameters, dependant.dependencies))
