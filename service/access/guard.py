"""The dependency that every route has: nothing is done before it is known who asks."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Depends, Request
from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute

from service.access import audit
from service.access.door import Door, Undeclared
from service.access.permissions import AUDITED, MAY, ROUTES, SAFE, Permission
from service.access.principal import ANYBODY, Principal
from service.errors import Forbidden


async def guard(request: Request) -> None:
    """Let the request in, and note who sent it as ``request.state.principal``, and his project.

    Raises:
        Unauthorized: there is no good token.
        Forbidden: the token is of a kind that may not do this.
        TooMany: too many requests.
    """
    door: Door = request.app.state.door
    route, asked = door.asked_of(request)
    principal = ANYBODY if asked is Permission.OPEN else await door.admit(request, asked)
    if asked not in principal.may:
        raise Forbidden(_refusal(principal, asked))
    request.state.principal = principal
    request.state.project = principal.project
    if asked in AUDITED and request.method not in SAFE:
        request.state.witness = audit.witness(principal, route, request.url.path)


def _refusal(principal: Principal, asked: Permission) -> str:
    kinds = " or ".join(kind.value for kind, may in MAY.items() if asked in may)
    return (
        f"A token of the kind {principal.kind} may not do this; it takes one of the kind {kinds}."
    )


GUARD = Depends(guard)
"""For every router."""


def guarded(routes: Sequence[BaseRoute]) -> Sequence[BaseRoute]:
    """Give the routes back, each of which asks first who is there.

    Raises:
        Undeclared: one does not, and is not open to all.
    """
    for route in iter_route_contexts(routes):
        dependant = getattr(route, "dependant", None)
        first = dependant.dependencies[0].call if dependant and dependant.dependencies else None
        asked = {ROUTES.get(f"{method} {route.path}") for method in route.methods or ()}
        if first is not guard and asked != {Permission.OPEN}:
            raise Undeclared(f"{route.path} has no guard")
    return routes
