"""Digests: one message a day that lists what a sink would have heard since the last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.database.session import alone, rows
from service.models import DeliveryRow, DeliveryState, EventKind, OutboxEvent
from service.outbox import deliveries, events, hours
from service.outbox.sinks import Sink
from service.wording import formats

LISTED = 100
"""Events that are listed; of more the newest, and how many others there are."""
_EMPTY_WITHIN = timedelta(hours=1)
"""How late a digest of nothing may be: a sink that is set up at noon gets none of the morning."""


def write_due(session: Session, sinks: Iterable[Sink], now: datetime) -> None:
    """Write the digest of each sink whose hour has come, unless it was written."""
    for sink in sinks:
        if sink.digest is None:
            continue
        moment = hours.newest(sink.digest, sink.zone, now)
        alone(session, "digests")
        if _is_written(session, sink, moment):
            continue
        gathered = _gathered(session, sink, now)
        if gathered or (sink.empty_digest and now - moment < _EMPTY_WITHIN):
            _write(session, sink, gathered, now)


def _is_written(session: Session, sink: Sink, moment: datetime) -> bool:
    own = OutboxEvent.kind == EventKind.DIGEST, OutboxEvent.subject == sink.name
    query = select(OutboxEvent.id).where(*own, OutboxEvent.at >= moment).limit(1)
    return session.scalars(query).first() is not None


def _gathered(session: Session, sink: Sink, now: datetime) -> Sequence[OutboxEvent]:
    """Take what waits for the digest, the oldest first."""
    own = DeliveryRow
    waits = own.sink == sink.name, own.state == DeliveryState.GATHERED, own.due_at <= now
    untold = (*waits, own.delivered_at.is_(None))
    query = select(OutboxEvent).join(own, own.event_id == OutboxEvent.id).where(*untold)
    found = session.scalars(query.order_by(OutboxEvent.id)).all()
    ids = own.event_id.in_([event.id for event in found])
    rows(session, update(own).where(*untold, ids).values(delivered_at=now))
    return found


def _write(session: Session, sink: Sink, found: Sequence[OutboxEvent], now: datetime) -> None:
    listed = [
        {
            "title": events.title_of(event),
            "headline": event.headline,
            "path": events.page_of(event),
        }
        for event in found[-LISTED:]
    ]
    night = next((one for one in reversed(found) if one.kind == EventKind.NIGHT_REPORTED), None)
    more = len(found) - len(listed)
    news = events.News(
        EventKind.DIGEST,
        headline=formats.counted(len(found), "event") if found else "Nothing happened",
        sentence="\n".join(
            [*(f"{one['title']}: {one['headline']}" for one in listed)]
            + ([f"and {more} earlier"] if more else [])
        ),
        subject=sink.name,
        details={"listed": listed, "more": more, "night": night and night.details},
    )
    deliveries.send_to(session, sink.name, news, now)
