"""The only module that changes a delivery: by compare-and-swap, so that replicas may race."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from service.database import paging
from service.database.session import new_id, rows
from service.models import DeliveryRow, DeliveryState, EventKind, OutboxEvent
from service.outbox import events
from service.outbox.post import NotDelivered
from service.outbox.sinks import Sink
from service.schemas import errors
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
KEPT = timedelta(days=90)
"""For which it is shown what was sent, and nights are listed."""
NO_SUCH = "There is no such delivery; GET /api/v1/outbox lists them."


@dataclass(frozen=True, slots=True)
class Claimed:
    """One attempt that nobody else makes now."""

    delivery_id: str
    attempt: int
    """Counts from 1."""
    event: OutboxEvent


def route(session: Session, sinks: Sequence[Sink], now: datetime) -> int:
    """Make the deliveries of some new events, each event once whoever else routes.

    Returns how many events there were; there may be more unless there were none.
    """
    oldest = new_id(now - _NEWS)
    query = select(OutboxEvent).where(OutboxEvent.routed.is_(False), OutboxEvent.id > oldest)
    found = session.scalars(query.order_by(OutboxEvent.id).limit(_AT_ONCE)).all()
    for event in found:
        seen = OutboxEvent.id == event.id, OutboxEvent.routed.is_(False)
        if rows(session, update(OutboxEvent).where(*seen).values(routed=True)):
            for place, sink in enumerate(one for one in sinks if one.hears(event)):
                _add_heard(session, event, sink, now, place)
    return len(found)


def _add_heard(session: Session, event: OutboxEvent, sink: Sink, now: datetime, place: int) -> None:
    if (until := sink.gathers_until(now)) is None:
        add(session, event.id, sink.name, now, place)
    else:
        add(session, event.id, sink.name, now, place, state=DeliveryState.GATHERED, due_at=until)


def count_unrouted(session: Session, now: datetime) -> int:
    """Count the events whose deliveries are still to be made."""
    new = OutboxEvent.routed.is_(False), OutboxEvent.id > new_id(now - _NEWS)
    return session.scalars(select(func.count(OutboxEvent.id)).where(*new)).one()


def test(session: Session, sink: str, now: datetime) -> str:
    """Have a test sent to one sink; the delivery's id."""
    news = events.News(
        EventKind.TEST,
        headline="A test of this sink",
        sentence="Somebody asked Throughline to send a test.",
    )
    return send_to(session, sink, news, now)


def send_to(session: Session, sink: str, news: events.News, now: datetime) -> str:
    """Have news sent to one sink and no other; the delivery's id."""
    return add(session, events.write(session, news, now, routed=True), sink, now)


def claim(session: Session, sink: Sink, now: datetime) -> Claimed | None:
    """Begin the attempt of a sink that is due first; None if none is that others have not begun.

    If whoever claimed it is killed, it is due again after `HELD`. In quiet hours all that is due
    waits for their end, but for a test.
    """
    own = DeliveryRow
    due = own.sink == sink.name, own.state == DeliveryState.WAITING, own.due_at <= now
    if (until := sink.quiet_until(now)) is not None:
        tests = select(OutboxEvent.id).where(OutboxEvent.kind == EventKind.TEST)
        rows(session, update(own).where(*due, own.event_id.not_in(tests)).values(due_at=until))
    first = select(own).where(*due).order_by(own.due_at, own.id).limit(1)
    row = session.scalars(first.with_for_update(skip_locked=True)).first()
    if row is None or not _change(session, row, attempts=row.attempts + 1, due_at=now + HELD):
        return None
    event = session.get_one(OutboxEvent, row.event_id)
    return Claimed(row.id, row.attempts + 1, event)


def delivered(session: Session, claimed: Claimed, now: datetime) -> None:
    """Note that the receiver took it, whoever has claimed it since."""
    own = DeliveryRow
    values = {"state": DeliveryState.DELIVERED, "delivered_at": now, "error": ""}
    rows(session, update(own).where(own.id == claimed.delivery_id).values(values))


def failed(session: Session, claimed: Claimed, fault: NotDelivered, now: datetime) -> None:
    """Note why an attempt failed, and when the next one is due, unless another has begun."""
    last = fault.final or claimed.attempt >= MOST_ATTEMPTS
    pause = max(pause_after(claimed.attempt), timedelta(seconds=fault.wait_s))
    values = {
        "state": DeliveryState.DEAD if last else DeliveryState.WAITING,
        "due_at": now + pause,
        "error": str(fault),
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
    values = {"state": DeliveryState.WAITING, "attempts": 0, "due_at": now}
    _change_dead(session, delivery_id, values, "sent again")


def dismiss(session: Session, delivery_id: str) -> None:
    """Give a dead letter up, so that it is removed when its time has come.

    Raises:
        NotFound: there is no such delivery.
        Conflict: it is not dead.
    """
    _change_dead(session, delivery_id, {"state": DeliveryState.DISMISSED}, "dismissed")


def _change_dead(session: Session, delivery_id: str, values: dict[str, object], what: str) -> None:
    own = DeliveryRow
    dead = own.id == delivery_id, own.state == DeliveryState.DEAD
    if not rows(session, update(own).where(*dead).values(values)):
        state = load(session, delivery_id).state
        raise errors.Conflict(f"A delivery that is {state} is not {what}.")


def remove_old(session: Session, now: datetime) -> None:
    """Remove what was told or dismissed long ago, and old events that no delivery is of.

    What waits or is dead stays.
    """
    own, oldest = DeliveryRow, new_id(now - KEPT)
    over = own.state.in_((DeliveryState.DELIVERED, DeliveryState.DISMISSED))
    told = own.state == DeliveryState.GATHERED, own.delivered_at.is_not(None)
    gone = select(own.id).where(own.id < oldest, or_(over, and_(*told))).limit(_AT_ONCE)
    silent = {"synchronize_session": False}
    session.execute(delete(own).where(own.id.in_(gone)), execution_options=silent)
    needed = exists().where(own.event_id == OutboxEvent.id)
    idle = select(OutboxEvent.id).where(OutboxEvent.id < oldest, ~needed).limit(_AT_ONCE)
    session.execute(delete(OutboxEvent).where(OutboxEvent.id.in_(idle)), execution_options=silent)


def load(session: Session, delivery_id: str) -> DeliveryView:
    """One delivery.

    Raises:
        NotFound: there is no such delivery.
    """
    row = session.get(DeliveryRow, delivery_id)
    if row is None:
        raise errors.NotFound(NO_SUCH)
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


def add(
    session: Session, event_id: str, sink: str, now: datetime, place: int = 0, **known: object
) -> str:
    """Store a delivery that is due now, unless ``known`` says otherwise; its id."""
    values = {"due_at": now} | known
    row = DeliveryRow(id=new_id(now, place), event_id=event_id, sink=sink, **values)
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
