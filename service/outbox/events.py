"""Writes events, in the transaction of the change that they tell of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from urllib.parse import quote

from sqlalchemy.orm import Session

from service.database.session import new_id
from service.models import EventKind, OutboxEvent

_PAGES = {
    "finding": "/findings/{}",
    "comparison": "/comparisons/{}",
    "bisection": "/bisections/{}",
    "night": "/nights/{}",
    "worker": "/workers",
    "digest": "/findings",
}


@dataclass(frozen=True, slots=True)
class News:
    """Something that happened, in words for a reader elsewhere."""

    kind: EventKind
    headline: str
    sentence: str
    subject: str = ""
    """The id of the finding, comparison or bisection, a worker's name, a night's date, or the
    sink of a digest."""
    project: str = ""
    size: float | None = None
    """Of the change, as a share of the level before; None if it has none."""
    pull_request: str = ""
    """The key of the pull request that it is about."""
    workload: str = ""
    """Empty: it is about no workload, or about several."""
    outcome: str = ""
    """What it came to: the kind of a finding, the outcome of a comparison or bisection."""
    details: Mapping[str, Any] | None = None
    """The report of a night, or what a digest lists."""


def write(session: Session, news: News, now: datetime, *, routed: bool = False) -> str:
    """Store an event, to be routed to whoever hears it unless it is ``routed``; its id."""
    known = {field.name: getattr(news, field.name) for field in fields(news)}
    row = OutboxEvent(id=new_id(now), at=now, routed=routed, **known)
    session.add(row)
    session.flush()
    return row.id


def noun_of(kind: str) -> str:
    """What an event is about: ``finding``, ``comparison``, ``night``, ``worker``, ``test`` ..."""
    noun = kind.partition(".")[0]
    return "finding" if noun == "node" else noun


def title_of(event: OutboxEvent) -> str:
    """What happened, before its headline: ``Finding opened``."""
    noun, _, what = event.kind.partition(".")
    return f"{noun.capitalize()} {what}".strip()


def page_of(event: OutboxEvent) -> str:
    """The path of the page that shows what an event is about."""
    page = _PAGES.get(noun_of(event.kind), "/").format(event.subject)
    of_project = event.kind == EventKind.NIGHT_REPORTED
    return f"{page}?project={quote(event.project)}" if of_project else page
