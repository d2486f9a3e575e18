"""Chats with a hook that takes ``{"text": ...}``, as Slack's does."""

from __future__ import annotations

from typing import Literal

import orjson

from service.models import OutboxEvent
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
    noun, _, what = event.kind.partition(".")
    return f"{noun.capitalize()} {what}".strip() + f": {_escaped(event.headline)}\n<{link}>"


def _escaped(text: str) -> str:
    """Text in which Slack reads no command, mention or link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
