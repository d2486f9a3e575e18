"""What every kind of sink has: a name, rules of what it hears, and a way to send."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import httpx2
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, StringConstraints

from service.database.session import Database
from service.models import EventKind, OutboxEvent
from service.outbox.events import page_of
from service.schemas.outbox import FOR_FORGES


def _kept_elsewhere(value: object) -> object:
    """The text that ``env:NAME`` or ``file:PATH`` holds; any other value as it is."""
    if not isinstance(value, str):
        return value
    how, _, where = value.partition(":")
    if how == "env":
        if where not in os.environ:
            raise ValueError(f"names the variable {where}, which is not set")
        return os.environ[where]
    if how == "file":
        try:
            return Path(where).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            raise ValueError(f"names the file {where}, which cannot be read") from None
    return value


Kept = Annotated[SecretStr, BeforeValidator(_kept_elsewhere)]
"""A secret, or the variable or file that holds it."""


@dataclass(frozen=True, slots=True)
class Sending:
    """What a sink may use in one attempt."""

    database: Database
    address: str
    """Begins every link to this service's pages."""
    now: datetime
    within_s: float

    def link(self, event: OutboxEvent) -> str:
        """The address of the page that shows what an event is about."""
        return f"{self.address}{page_of(event)}"


class Sink(BaseModel, ABC):
    """One receiver of events, and what it hears.

    A kind of sink is a subclass with a ``kind``, named in `kinds`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    events: frozenset[EventKind] = frozenset(EventKind) - FOR_FORGES
    project: str | None = None
    """Only events of this project."""
    least: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Only changes of this size or more, as a share; what has no size is always heard."""
    private: bool = False
    """Whether it may have a private or loopback address, and no TLS."""

    def hears(self, event: OutboxEvent) -> bool:
        """Return True if an event is to be sent here."""
        large = event.size is None or abs(event.size) >= self.least
        here = self.project is None or event.project == self.project
        return event.kind in self.events and large and here

    @abstractmethod
    def send(self, event: OutboxEvent, sending: Sending) -> None:
        """Make one attempt to have the receiver take an event.

        Raises:
            NotDelivered: it has not.
        """


def web_address(text: str, *, private: bool, field: str = "url") -> httpx2.URL:
    """Read an address that may be sent to.

    Raises:
        ValueError: it is none; the sentence names the ``field``, and holds no address.
    """
    try:
        address = httpx2.URL(text)
    except httpx2.InvalidURL:
        raise ValueError(f"{field} is not an address") from None
    if not address.host or address.scheme not in ("http", "https") or address.userinfo:
        raise ValueError(f"{field} must be https://HOST/..., without a user")
    if address.scheme == "http" and not private:
        raise ValueError(f"{field} must begin with https:// unless private = true")
    return address
