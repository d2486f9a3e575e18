"""Chats with a hook that takes ``{"text": ...}``, as Slack's does."""

from __future__ import annotations

from typing import Literal

import orjson

from service.models import EventKind, OutboxEvent
from service.outbox.events import title_of
from service.outbox.post import JSON, Message, post
from service.outbox.sinks.sink import Sending
from service.outbox.sinks.webhook import Hook


class Slack(Hook):
    """A channel of a chat; it gets a line an event."""

    kind: Literal["slack"]

    def send(self, event: OutboxEvent, sending: Sending) -> None:
        """Post the line of an event."""
        text = _chat_line(event, sending.link(event))
        made = Message(JSON, orjson.dumps({"text": text}))
        post(self.address, made, private=self.private, within_s=sending.within_s)


def _chat_line(event: OutboxEvent, link: str) -> str:
    listed = f"\n{_escaped(event.sentence)}" if event.kind == EventKind.DIGEST else ""
    return f"{title_of(event)}: {_escaped(event.headline)}{listed}\n<{link}>"


def _escaped(text: str) -> str:
    """Text in which Slack reads no command, mention or link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
