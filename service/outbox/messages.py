"""Forms of an event on the wire: a signed webhook, or a line for a chat."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime

import orjson

from service.models import EventKind, OutboxEvent
from service.outbox.events import noun_of, page_of
from service.outbox.sinks import Sink, SinkKind


@dataclass(frozen=True, slots=True)
class Message:
    """Headers and body of one request."""

    headers: dict[str, str]
    body: bytes


def message(sink: Sink, event: OutboxEvent, address: str, now: datetime) -> Message:
    """Write an event down as a sink reads it; links begin with ``address``.

    The body is the same in every attempt. Only the time and what is signed with it differ.
    """
    link = f"{address}{page_of(event)}"
    json = {"Content-Type": "application/json", "User-Agent": "throughline"}
    if sink.kind is SinkKind.SLACK:
        return Message(json, orjson.dumps({"text": _chat_line(event, link)}))
    body = orjson.dumps(_document(event, link))
    timestamp = str(int(now.timestamp()))
    signed = signature(sink.key, event.id, timestamp, body)
    standard = {
        "webhook-id": event.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signed,
    }
    return Message(json | standard, body)


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Sign a message as Standard Webhooks does: HMAC-SHA256 of id, time (Unix s) and body."""
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def _document(event: OutboxEvent, link: str) -> dict[str, object]:
    data = {
        "headline": event.headline,
        "sentence": event.sentence,
        "link": link,
        "project": event.project,
        "size": event.size,
    }
    if event.kind != EventKind.TEST:
        data[noun_of(event.kind)] = event.subject
    return {"type": event.kind, "timestamp": event.at.isoformat(), "data": data}


def _chat_line(event: OutboxEvent, link: str) -> str:
    noun, _, what = event.kind.partition(".")
    return f"{noun.capitalize()} {what}".strip() + f": {_escaped(event.headline)}\n<{link}>"


def _escaped(text: str) -> str:
    """Text in which Slack reads no command, mention or link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
