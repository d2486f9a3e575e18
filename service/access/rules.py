"""Whether tokens are asked for: always, never, or as soon as there is one for an administrator."""

from __future__ import annotations

import ipaddress

from service.access import store
from service.database import Database
from service.errors import ServiceError
from service.settings import Access, Settings


class NobodyMayEnter(ServiceError):
    """The service would be open to more than this machine: make a token first."""

    status_code = 503
    type = "no-tokens"
    title = "No tokens are set up"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def always(settings: Settings) -> bool:
    """Whether tokens are asked for without a look at those that there are."""
    if settings.access is Access.AUTO:
        return not is_loopback(settings.reached_at)
    return settings.access is Access.TOKENS


def in_force(database: Database, settings: Settings) -> bool:
    """Whether tokens are asked for now."""
    if settings.access is Access.OPEN or always(settings):
        return settings.access is not Access.OPEN
    with database.reading() as session:
        return store.any_admin(session)


def told(database: Database, settings: Settings) -> str:
    """Who may come in, for the log of a service that starts."""
    if in_force(database, settings):
        return "whoever comes in needs a token"
    return f"whoever reaches {settings.reached_at} may do everything: no token is asked for"


def check(database: Database, settings: Settings) -> None:
    """Make sure that a service that others can reach asks who they are.

    Raises:
        NobodyMayEnter: it listens on more than the loopback, and no administrator has a token.
    """
    if settings.access is not Access.AUTO or not always(settings):
        return
    with database.reading() as session:
        if store.any_admin(session):
            return
    raise NobodyMayEnter(
        f"Whoever reaches {settings.reached_at} could use this service, and no token is set up: "
        "run `throughline token create --kind admin --name NAME` here first, or set "
        "THROUGHLINE_ACCESS=open if the network itself keeps strangers out."
    )
