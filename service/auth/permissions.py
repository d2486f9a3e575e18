"""The permissions: each route declares the one that it needs, a table says who has which.

A route of the API, a page or a file that declares none cannot be made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from service.schemas.access import TokenKind

F = TypeVar("F", bound=Callable[..., Any])
_DECLARED = "needed_permission"


class Undeclared(Exception):
    """A route does not say who may call it."""


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
    regression expected, or take out the results that show it, would pass itself.
    """
    WORK = "work"
    """Take jobs and deliver results."""
    ADMIN = "admin"
    """Change what is measured by the clock, and who may do what."""

    def required(self, endpoint: F) -> F:
        """Declare, below a route's own decorator, that its endpoint asks for this permission."""
        setattr(endpoint, _DECLARED, self)
        return endpoint


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


def needed(endpoint: Callable[..., Any]) -> Permission:
    """Return what an endpoint has declared.

    Raises:
        Undeclared: nothing.
    """
    permission = getattr(endpoint, _DECLARED, None)
    if not isinstance(permission, Permission):
        raise Undeclared(
            f"{endpoint.__qualname__} does not say who may call it: add @Permission.X.required"
        )
    return permission
