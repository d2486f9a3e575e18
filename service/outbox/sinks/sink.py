"""The base of every kind of sink: a name, rules of what it hears, and a way to send."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Annotated, ClassVar
from zoneinfo import ZoneInfo

import httpx2
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
)

from benchmarks.contracts import Worded
from service.database.session import Database
from service.models import EventKind, OutboxEvent
from service.outbox import hours
from service.outbox.events import page_of
from service.schemas.bisections import BisectionOutcome
from service.schemas.findings import FindingKind
from service.schemas.gate import Outcome
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
    """The means of a sink in one attempt."""

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
    at_once: ClassVar[int] = 1
    """Attempts that a replica makes at the same time; one at a time they keep their order."""

    name: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$"),
        Worded("must be 1 to 64 of the characters a-z, 0-9 and '-', the first a letter or digit"),
    ]
    events: frozenset[EventKind] = frozenset(EventKind) - FOR_FORGES
    project: str | None = None
    """Only events of this project."""
    workloads: frozenset[str] = frozenset()
    """Only events of these workloads, and those that are of none or of several; empty: of all."""
    outcomes: frozenset[FindingKind | Outcome | BisectionOutcome] = frozenset()
    """Only these, such as ``regression`` and ``culprit``, and what has none; empty: all."""
    least: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Only changes of this size or more, as a share; what has no size is always heard."""
    quiet: (
        Annotated[
            str,
            StringConstraints(pattern=f"^{hours.TIME}-{hours.TIME}$"),
            Worded("must be as 22:00-07:00"),
        ]
        | None
    ) = None
    """Hours, such as ``22:00-07:00``, in which nothing is sent; what comes then is, at their
    end."""
    digest: time | None = None
    """At this time of day one message lists what happened since the last; nothing else is sent."""
    empty_digest: bool = False
    """Whether a digest is sent too when nothing happened."""
    timezone: str = "UTC"
    """IANA name of the zone of ``quiet`` and ``digest``."""
    private: bool = False
    """Whether it may have a private or loopback address, and no TLS."""

    @field_validator("digest", mode="before")
    @classmethod
    def _is_a_time(cls, text: object) -> object:
        if isinstance(text, str) and not re.fullmatch(hours.TIME, text):
            raise ValueError("must be a time of day such as 07:30")
        return text

    @field_validator("quiet")
    @classmethod
    def _ends(cls, hours: str | None) -> str | None:
        if hours is not None and len(set(hours.split("-"))) == 1:
            raise ValueError("must end at another time than it begins")
        return hours

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # a folder of zones is an OSError
            raise ValueError("must be an IANA name such as Europe/Berlin") from None
        return name

    @property
    def zone(self) -> ZoneInfo:
        """The zone of quiet hours and digest."""
        return ZoneInfo(self.timezone)

    def quiet_until(self, now: datetime) -> datetime | None:
        """The end of the quiet hours; None outside them."""
        return None if self.quiet is None else hours.quiet_until(self.quiet, self.zone, now)

    def gathers_until(self, now: datetime) -> datetime | None:
        """The time of the next digest; None if each event is sent by itself."""
        return None if self.digest is None else hours.following(self.digest, self.zone, now)

    def hears(self, event: OutboxEvent) -> bool:
        """Return True if an event is to be sent here."""
        large = event.size is None or abs(event.size) >= self.least
        here = self.project is None or event.project == self.project
        of_these = not (self.workloads and event.workload) or event.workload in self.workloads
        so = not (self.outcomes and event.outcome) or event.outcome in self.outcomes
        return event.kind in self.events and large and here and of_these and so

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
