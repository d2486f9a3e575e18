"""Sinks: who hears which events, as the operator's TOML file names them."""

from __future__ import annotations

import base64
import binascii
import os
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

import httpx2
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from service.models import EventKind, OutboxEvent

SIGNATURE_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)
"""As Standard Webhooks asks."""


class SinksWrong(Exception):
    """The file of sinks cannot be used; the sentence holds no secret of it."""


class SinkKind(StrEnum):
    """The forms in which events are sent."""

    WEBHOOK = "webhook"
    SLACK = "slack"


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


class Sink(BaseModel):
    """One receiver of events, and what it hears."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    kind: SinkKind
    url: Kept
    """Secret too: whoever knows the address of a chat's hook can write there."""
    secret: Kept | None = None
    """``whsec_`` and the key in base64."""
    events: frozenset[EventKind] = frozenset(EventKind)
    project: str | None = None
    """Only events of this project."""
    least: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Only changes of this size or more, as a share; what has no size is always heard."""
    private: bool = False
    """Whether it may have a private or loopback address, and no TLS."""

    @model_validator(mode="after")
    def _can_be_sent_to(self) -> Self:
        try:
            address = self.address
        except httpx2.InvalidURL:
            raise ValueError("url is not an address") from None
        if not address.host or address.scheme not in ("http", "https") or address.userinfo:
            raise ValueError("url must be https://HOST/..., without a user")
        if address.scheme == "http" and not self.private:
            raise ValueError("url must begin with https:// unless private = true")
        if self.kind is SinkKind.WEBHOOK and self.secret is None:
            raise ValueError("a webhook needs a secret")
        return self

    @field_validator("secret")
    @classmethod
    def _is_a_key(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and len(_key_of(secret)) not in _KEY_BYTES:
            raise ValueError(f"must be {SIGNATURE_PREFIX} and 24 to 64 bytes in base64")
        return secret

    @property
    def address(self) -> httpx2.URL:
        """Where events are sent."""
        return httpx2.URL(self.url.get_secret_value())

    @property
    def key(self) -> bytes:
        """The key that signs; empty without a secret."""
        return b"" if self.secret is None else _key_of(self.secret)

    def hears(self, event: OutboxEvent) -> bool:
        """Return True if an event is to be sent here."""
        large = event.size is None or abs(event.size) >= self.least
        here = self.project is None or event.project == self.project
        return event.kind in self.events and large and here


class Sinks(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: Annotated[str, StringConstraints(pattern=r"^https?://[^\s<>|]*[^\s<>|/]$")]
    """How links to this service's pages begin."""
    sink: tuple[Sink, ...] = ()

    @model_validator(mode="after")
    def _have_names(self) -> Self:
        names = [one.name for one in self.sink]
        if len(set(names)) < len(names):
            raise ValueError("two sinks have the same name")
        return self

    def named(self, name: str) -> Sink | None:
        """The sink of a name; None if there is none."""
        return next((one for one in self.sink if one.name == name), None)


NOBODY = Sinks(address="http://localhost")
"""Without a file nobody hears anything."""


def load(path: Path) -> Sinks:
    """Read the operator's file.

    Raises:
        SinksWrong: it cannot be read, or says something wrong.
    """
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return Sinks.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = " ".join(str(part + 1 if isinstance(part, int) else part) for part in fault["loc"])
        raise SinksWrong(f"{path}: {where}: {fault['msg']}.".replace(": : ", ": ")) from None
    except OSError as error:
        raise SinksWrong(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:  # what TOML's parser says may quote a secret
        raise SinksWrong(f"{path} is not TOML in UTF-8.") from None


def _key_of(secret: SecretStr) -> bytes:
    text = secret.get_secret_value()
    if not text.startswith(SIGNATURE_PREFIX):
        return b""
    try:
        return base64.b64decode(text.removeprefix(SIGNATURE_PREFIX), validate=True)
    except binascii.Error:
        return b""
