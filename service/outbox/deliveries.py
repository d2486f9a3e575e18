"""The only module that changes a delivery: by compare-and-swap, so that replicas may race."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from service.database import paging
from service.database.session import new_id, rows
from service.errors import Conflict, NotFound
from service.models import DeliveryRow, DeliveryState, EventKind, OutboxEvent
from service.outbox import events
from service.outbox.sinks import Sink
from service.schemas.outbox import DeliveryView

MOST_ATTEMPTS = 10
"""Over some 20 hours: a receiver may be away for a night."""
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=5), timedelta(hours=6)
_FACTOR = 4
HELD = timedelta(seconds=60)
"""For which a claim keeps others away; longer than one attempt may take."""
_NEWS = timedelta(days=3)
"""Older events are not routed: a sink that is set up today hears nothing of last year."""
_AT_ONCE = 200
"""Events that are routed in one transaction."""
NO_SUCH = "There is no such delivery; GET /api/v1/outbox lists them."


@dataclass(frozen=True, slots=True)
class Claimed:
    """One attempt that nobody else makes now."""

    delivery_id: str
    attempt: int
    """Counts from 1."""
    event: OutboxEvent


def route(session: Session, sinks: Sequence[Sink], now: datetime) -> None:
    """Make the deliveries of new events, each event once whoever else routes."""
    oldest = new_id(now - _NEWS)
    query = select(OutboxEvent).where(OutboxEvent.routed.is_(False), OutboxEvent.id > oldest)
    for event in session.scalars(query.order_by(OutboxEvent.id).limit(_AT_ONCE)).all():
        seen = OutboxEvent.id == event.id, OutboxEvent.routed.is_(False)
        if rows(session, update(OutboxEvent).where(*seen).values(routed=True)):
            for place, sink in enumerate(one for one in sinks if one.hears(event)):
                _add(session, event.id, sink.name, now, place)


def count_unrouted(session: Session, now: datetime) -> int:
    """Count the events whose deliveries are still to be made."""
    new = OutboxEvent.routed.is_(False), OutboxEvent.id > new_id(now - _NEWS)
    return session.scalars(select(func.count(OutboxEvent.id)).where(*new)).one()


def test(session: Session, sink: str, now: datetime) -> str:
    """Have a test sent to one sink; the delivery's id."""
    event = events.News(
        EventKind.TEST,
        headline="A test of this sink",
        sentence="Somebody asked Throughline to send a test.",
    )
    return _add(session, events.write(session, event, now, routed=True), sink, now)


def claim(session: Session, sink: str, now: datetime) -> Claimed | None:
    """Begin the attempt of a sink that is due first; None if none is, or another has it.

    If whoever claimed it is killed, it is due again after `HELD`.
    """
    own = DeliveryRow
    due = own.sink == sink, own.state == DeliveryState.WAITING, own.due_at <= now
    row = session.scalars(select(own).where(*due).order_by(own.due_at, own.id).limit(1)).first()
    if row is None or not _change(session, row, attempts=row.attempts + 1, due_at=now + HELD):
        return None
    event = session.get_one(OutboxEvent, row.event_id)
    return Claimed(row.id, row.attempts + 1, event)


def delivered(session: Session, claimed: Claimed, now: datetime) -> None:
    """Note that the receiver took it, whoever has claimed it since."""
    own = DeliveryRow
    values = {"state": DeliveryState.DELIVERED, "delivered_at": now, "error": ""}
    rows(session, update(own).where(own.id == claimed.delivery_id).values(values))


def failed(session: Session, claimed: Claimed, error: str, now: datetime) -> None:
    """Note why an attempt failed, and when the next one is due, unless another has begun."""
    last = claimed.attempt >= MOST_ATTEMPTS
    values = {
        "state": DeliveryState.DEAD if last else DeliveryState.WAITING,
        "due_at": now + pause_after(claimed.attempt),
        "error": error,
    }
    own = DeliveryRow
    same = own.id == claimed.delivery_id, own.attempts == claimed.attempt
    waits = own.state == DeliveryState.WAITING
    rows(session, update(own).where(*same, waits).values(values))


def again(session: Session, delivery_id: str, now: datetime) -> None:
    """Send a dead letter again, with as many attempts as the first time.

    Raises:
        NotFound: there is no such delivery.
        Conflict: it is not dead.
    """
    own = DeliveryRow
    dead = own.id == delivery_id, own.state == DeliveryState.DEAD
    values = {"state": DeliveryState.WAITING, "attempts": 0, "due_at": now}
    if not rows(session, update(own).where(*dead).values(values)):
        state = load(session, delivery_id).state
        raise Conflict(f"A delivery that is {state} is not sent again.")


def load(session: Session, delivery_id: str) -> DeliveryView:
    """One delivery.

    Raises:
        NotFound: there is no such delivery.
    """
    row = session.get(DeliveryRow, delivery_id)
    if row is None:
        raise NotFound(NO_SUCH)
    return _view(session, row)


def list_deliveries(
    session: Session, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> paging.Page[DeliveryView]:
    """Deliveries that meet ``conditions``, the newest first."""
    page = paging.newest_first(session, DeliveryRow, DeliveryRow.id, conditions, after, limit)
    return page.shown(_view(session, row) for row in page.items)


def pause_after(attempt: int) -> timedelta:
    """How long to wait after a failed attempt: four times longer each time, less some chance.

    By chance, so that what failed together does not come back together.
    """
    longer: int = _FACTOR ** (attempt - 1)
    pause = min(_FIRST_PAUSE * longer, _LONGEST_PAUSE)
    return pause * random.uniform(0.5, 1.0)


def _add(session: Session, event_id: str, sink: str, now: datetime, place: int = 0) -> str:
    row = DeliveryRow(id=new_id(now, place), event_id=event_id, sink=sink, due_at=now)
    session.add(row)
    session.flush()
    return row.id


def _change(session: Session, row: DeliveryRow, **values: object) -> bool:
    """Change a delivery if it waits and nobody has begun another attempt; say whether."""
    own = DeliveryRow
    same = own.id == row.id, own.attempts == row.attempts, own.due_at == row.due_at
    waits = own.state == DeliveryState.WAITING
    return rows(session, update(own).where(*same, waits).values(**values)) == 1


def _view(session: Session, row: DeliveryRow) -> DeliveryView:
    event = session.get_one(OutboxEvent, row.event_id)
    shown = {"event": event.kind, "headline": event.headline, "project": event.project}
    return DeliveryView.of(row, **shown)
