"""Writes events, in the transaction of the change that they tell of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from service.database.session import new_id
from service.models import EventKind, OutboxEvent

_PAGES = {"finding": "findings", "comparison": "comparisons", "bisection": "bisections"}


@dataclass(frozen=True, slots=True)
class News:
    """Something that happened, in words for a reader elsewhere."""

    kind: EventKind
    headline: str
    sentence: str
    subject: str = ""
    """The id of the finding, comparison or bisection."""
    project: str = ""
    size: float | None = None
    """Of the change, as a share of the level before; None if it has none."""
    pull_request: str = ""
    """The key of the pull request that it is about."""


def write(session: Session, news: News, now: datetime, *, routed: bool = False) -> str:
    """Store an event, to be routed to whoever hears it unless it is ``routed``; its id."""
    row = OutboxEvent(id=new_id(now), at=now, routed=routed, **asdict(news))
    session.add(row)
    session.flush()
    return row.id


def noun_of(kind: str) -> str:
    """What an event is about: ``finding``, ``comparison``, ``bisection`` or ``test``."""
    return kind.partition(".")[0]


def page_of(event: OutboxEvent) -> str:
    """The path of the page that shows what an event is about."""
    pages = _PAGES.get(noun_of(event.kind))
    return f"/{pages}/{event.subject}" if pages else "/"
