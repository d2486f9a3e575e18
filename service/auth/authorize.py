"""Finds out who sends a request, before anything is done for it."""

from __future__ import annotations

from fastapi import Request

from service.auth import audit
from service.auth.authenticate import Authenticator
from service.auth.permissions import AUDITED, MAY, SAFE, Permission
from service.auth.principal import ANYBODY, Principal
from service.errors import Forbidden


async def guard(request: Request, asked: Permission, route: str) -> None:
    """Let the request in, note who sent it as ``request.state.principal``, and his project.

    Its head alone says who that is.

    Args:
        request: the request.
        asked: what its route needs.
        route: the route's method and template, for the audit log.

    Raises:
        Unauthorized: there is no good token.
        Forbidden: the token is of a kind that may not do this.
        TooMany: too many requests.
    """
    door: Authenticator = request.app.state.door
    principal = ANYBODY if asked is Permission.OPEN else await door.admit(request, asked)
    if asked not in principal.may:
        raise Forbidden(_refusal(principal, asked))
    request.state.principal = principal
    request.state.project = principal.project
    if asked in AUDITED and request.method not in SAFE:
        request.state.witness = audit.audit_hook(principal, route, request.url.path)


def _refusal(principal: Principal, asked: Permission) -> str:
    kinds = " or ".join(kind.value for kind, may in MAY.items() if asked in may)
    return (
        f"A token of the kind {principal.kind} may not do this; it takes one of the kind {kinds}."
    )
