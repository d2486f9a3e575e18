"""The clients that must show a token: nobody, whoever changes something, or everybody."""

from __future__ import annotations

import ipaddress
from enum import StrEnum

from service.auth import token_store
from service.database.session import Database
from service.schemas.errors import ServiceError
from service.settings import Access, Settings


class Asked(StrEnum):
    """The clients that must show a token."""

    NOBODY = "nobody"
    CHANGES = "changes"
    """Whoever changes something; reading is open to this machine."""
    EVERYBODY = "everybody"


class NobodyMayEnter(ServiceError, status=503, type_="no-tokens", title="No tokens are set up"):
    """The service would be open to more than this machine: make a token first."""


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def at_first(settings: Settings) -> Asked:
    """Return which clients must show a token by the settings alone."""
    if settings.access is Access.OPEN:
        return Asked.NOBODY
    if settings.access is Access.AUTO and is_loopback(settings.reached_at):
        return Asked.CHANGES
    return Asked.EVERYBODY


def in_force(database: Database, settings: Settings) -> Asked:
    """Return which clients must show a token by the settings and the stored tokens."""
    asked = at_first(settings)
    if asked is not Asked.CHANGES:
        return asked
    with database.reading() as session:
        return Asked.EVERYBODY if token_store.any_admin(session) else asked


def describe(database: Database, settings: Settings) -> str:
    """Describe who may use the service, for the log of its start."""
    reached = settings.reached_at
    return {
        Asked.NOBODY: f"whoever reaches {reached} may do everything: no token is asked for",
        Asked.CHANGES: f"whoever reaches {reached} may read; whatever changes something needs a "
        "token",
        Asked.EVERYBODY: "whoever comes in needs a token",
    }[in_force(database, settings)]


def check(database: Database, settings: Settings) -> None:
    """Make sure that a service that others can reach asks who they are.

    Raises:
        NobodyMayEnter: it listens on more than the loopback, and no administrator has a token.
    """
    if settings.access is not Access.AUTO or at_first(settings) is not Asked.EVERYBODY:
        return
    with database.reading() as session:
        if token_store.any_admin(session):
            return
    raise NobodyMayEnter(
        f"Whoever reaches {settings.reached_at} could use this service, and no token is set up: "
        "run `throughline token create --kind admin --name NAME` here first, or set "
        "THROUGHLINE_ACCESS=open if the network itself keeps strangers out."
    )
