"""Signed webhooks, as Standard Webhooks describes them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import ClassVar, Literal, Self

import httpx2
import orjson
from pydantic import SecretStr, field_validator, model_validator

from service.models import EventKind, OutboxEvent
from service.outbox.events import noun_of
from service.outbox.post import JSON, Message, post
from service.outbox.sinks.sink import Kept, Sending, Sink, web_address

SIGNATURE_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)
"""As Standard Webhooks asks."""


class Hook(Sink):
    """A sink that takes one POST an event."""

    url: Kept
    """Secret too: whoever knows the address of a chat's hook can write there."""

    @model_validator(mode="after")
    def _can_be_sent_to(self) -> Self:
        web_address(self.url.get_secret_value(), private=self.private)
        return self

    @property
    def address(self) -> httpx2.URL:
        """The address that events are sent to."""
        return httpx2.URL(self.url.get_secret_value())


class Webhook(Hook):
    """A program that takes signed JSON."""

    at_once: ClassVar[int] = 8
    kind: Literal["webhook"]
    secret: Kept | None = None
    """``whsec_`` and the key in base64."""

    @field_validator("secret")
    @classmethod
    def _is_a_key(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and len(_key_of(secret)) not in _KEY_BYTES:
            raise ValueError(f"must be {SIGNATURE_PREFIX} and 24 to 64 bytes in base64")
        return secret

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        if self.secret is None:
            raise ValueError("a webhook needs a secret")
        return self

    @property
    def key(self) -> bytes:
        """The key that signs."""
        return b"" if self.secret is None else _key_of(self.secret)

    def send(self, event: OutboxEvent, sending: Sending) -> None:
        """Post an event; the body is the same in every attempt, only the time signed differs."""
        body = orjson.dumps(_document(event, sending.link(event)))
        timestamp = str(int(sending.now.timestamp()))
        standard = {
            "webhook-id": event.id,
            "webhook-timestamp": timestamp,
            "webhook-signature": signature(self.key, event.id, timestamp, body),
        }
        made = Message(JSON | standard, body)
        post(self.address, made, private=self.private, within_s=sending.within_s)


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Sign a message as Standard Webhooks does: HMAC-SHA256 of id, time (Unix s) and body."""
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def _document(event: OutboxEvent, link: str) -> dict[str, object]:
    data: dict[str, object] = {
        "headline": event.headline,
        "sentence": event.sentence,
        "link": link,
        "project": event.project,
        "size": event.size,
    }
    if event.kind != EventKind.TEST:
        data[noun_of(event.kind)] = event.subject
    if event.details is not None:
        data["details"] = event.details
    return {"type": event.kind, "timestamp": event.at.isoformat(), "data": data}


def _key_of(secret: SecretStr) -> bytes:
    text = secret.get_secret_value()
    if not text.startswith(SIGNATURE_PREFIX):
        return b""
    try:
        return base64.b64decode(text.removeprefix(SIGNATURE_PREFIX), validate=True)
    except binascii.Error:
        return b""
