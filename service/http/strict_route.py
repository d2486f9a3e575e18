"""Routes of the service: each asks who is there, and then for the request's body.

In this order, because whoever is refused shall not have held, or had parsed, what he sent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from service.auth.authenticate import Undeclared
from service.auth.authorize import guard
from service.auth.permissions import ROUTES, SAFE, Permission
from service.auth.principal import client_of
from service.errors import Invalid
from service.http.body_reader import BODY, DOCUMENT, Body

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _Parsed(Request):
    """A request whose JSON was parsed as it came in; parsing it again would parse it otherwise."""

    async def json(self) -> Any:
        return self.scope[DOCUMENT]


class GuardedRoute(APIRoute):
    """A route that nobody reaches, and to which nobody's body is read, before the guard agrees."""

    def get_route_handler(self) -> Handler:
        """Wrap FastAPI's handler, which would read the body first."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            stranger = await guard(request) is Permission.OPEN
            body: Body = request.scope[BODY]
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


def guarded(routes: Sequence[BaseRoute]) -> Sequence[BaseRoute]:
    """Give the routes back, each of which asks first who is there.

    Raises:
        Undeclared: one does not, and is more than a file that is open to all.
    """
    for route in iter_route_contexts(routes):
        methods = route.methods or set()
        asked = {ROUTES.get(f"{method} {route.path}") for method in methods}
        is_file = asked == {Permission.OPEN} and methods <= SAFE
        if not isinstance(route.original_route, GuardedRoute) and not is_file:
            raise Undeclared(f"{route.path} has no guard")
    return routes


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
