"""Routes of the service: each asks who is there, and then for the request's body.

In this order, because whoever is refused shall not have held, or had parsed, what he sent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from service.auth.authorize import guard
from service.auth.permissions import Permission, Undeclared, needed
from service.auth.principal import client_of
from service.errors import Invalid
from service.http.body_reader import BODY, DOCUMENT, Body

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _Parsed(Request):
    """A request whose JSON was parsed as it came in; parsing it again would parse it otherwise."""

    async def json(self) -> Any:
        return self.scope[DOCUMENT]


class GuardedRoute(APIRoute):
    """A route that nobody reaches, and to which nobody's body is read, before the guard agrees.

    Its endpoint declares with `permissions.needs` what it asks for.
    """

    def get_route_handler(self) -> Handler:
        """Wrap FastAPI's handler, which would read the body first."""
        handle = super().get_route_handler()
        needs = needed(self.endpoint)

        async def guarded(request: Request) -> Response:
            await guard(request, needs, f"{request.method} {self.path}")
            body: Body = request.scope[BODY]
            stranger = needs is Permission.OPEN
            await body.read(request.scope, client_of(request), stranger=stranger)
            return await handle(_Parsed(request.scope, request.receive))

        return guarded


class StrictRoute(GuardedRoute):
    """A route of the API; `service.api.router` makes routers of them."""

    def get_route_handler(self) -> Handler:
        """Refuse parameters of the query that nobody reads."""
        handle = super().get_route_handler()
        known = _parameters(self.dependant)

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                _check_known(request.query_params.keys(), known)
            return await handle(request)

        return strict


def declared(routes: Sequence[BaseRoute]) -> Mapping[str, Permission]:
    """Return what each route needs, by its method and template, such as ``GET /api/v1/jobs``.

    Raises:
        Undeclared: a route has no guard.
    """
    found: dict[str, Permission] = {}
    for route in iter_route_contexts(routes):
        guarded = route.original_route
        if not isinstance(guarded, GuardedRoute):
            raise Undeclared(f"{route.path} has no guard")
        methods = route.methods or set()
        found |= {f"{method} {route.path}": needed(guarded.endpoint) for method in methods}
    return found


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
