"""The sender of a request, and its permissions."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from service.auth.permissions import EVERYTHING, MAY, Permission
from service.schemas.access import TokenKind, TokenView
from service.schemas.errors import Forbidden


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever sent a request, as far as the service knows."""

    name: str
    kind: TokenKind | None = None
    """None where nobody is asked for a token."""
    token_id: str | None = None
    project: str | None = None
    """The only one whose things it sees and makes; None if it is bound to none."""
    may: frozenset[Permission] = field(init=False)
    """The permissions of the sender."""
    worker: str | None = field(init=False)
    """The only worker that it may be; None if it may be any."""

    def __post_init__(self) -> None:
        """Look up once what every request asks for."""
        object.__setattr__(self, "may", EVERYTHING if self.kind is None else MAY[self.kind])
        worker = self.name if self.kind is TokenKind.WORKER else None
        object.__setattr__(self, "worker", worker)

    @classmethod
    def of(cls, token: TokenView) -> Principal:
        """The holder of a token."""
        return cls(token.name, token.kind, token.id, token.project)

    def be(self, worker: str) -> None:
        """Make sure that it may act as ``worker``.

        Raises:
            Forbidden: its token is another worker's.
        """
        if self.worker not in (None, worker):
            raise Forbidden(
                f"This token is for the worker {self.worker}: start it under that name "
                "(THROUGHLINE_WORKER_NAME), or enrol this one with a code of its own."
            )

    def owner(self, asked: str | None) -> str | None:
        """Return the project that owns what the sender makes; ``asked`` is the wanted one, if any.

        Raises:
            Forbidden: its token is bound to another project.
        """
        if self.project is not None and asked not in (None, self.project):
            raise Forbidden(
                f"This token is for the project {self.project}: leave `project` out, or take a "
                f"token of the project {asked} or of none."
            )
        return asked or self.project

    def __str__(self) -> str:
        """For the audit log."""
        return self.name if self.kind is None else f"{self.kind} {self.name}"


ANYBODY = Principal("anybody")
"""Whoever reaches a service that asks for no tokens."""
READER = Principal("anybody", TokenKind.READ)
"""Whoever reaches a service that asks for a token for changes alone, and shows none."""


def client_of(request: HTTPConnection) -> str:
    """Name the client with which others share what there is: a token's id, else an address."""
    principal: Principal = getattr(request.state, "principal", ANYBODY)
    address = request.client.host if request.client else ""
    return principal.token_id or network_of(address)


def network_of(host: str) -> str:
    """An IPv4 address as it is; of IPv6 the first 64 bits, because one machine has all the rest."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4 or address.ipv4_mapped:
        return str(getattr(address, "ipv4_mapped", None) or address)
    return str(ipaddress.ip_network((address, 64), strict=False))
