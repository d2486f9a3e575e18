"""The threads that deliver: they share the work, end in time, and lose nothing when killed."""

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from builders.receiver import OK, receiving, status
from builders.served import wait_until
from sqlalchemy import func, select

from service.database.session import Database, now_of
from service.models import DeliveryRow, EventKind
from service.outbox import couriers, deliveries, events
from service.outbox.couriers import Couriers
from service.outbox.sinks import Sinks
from service.outbox.sinks.slack import Slack
from service.outbox.sinks.webhook import Webhook

pytestmark = pytest.mark.both_databases

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def hook(url: str) -> Webhook:
    known = {"name": "ci", "kind": "webhook", "url": url, "secret": SECRET, "private": True}
    return Webhook.model_validate(known)


def write(database: Database, count: int) -> list[str]:
    with database.writing() as session:
        now = now_of(session)
        told = [events.News(EventKind.FINDING_OPENED, f"{n}", ".", f"{n}") for n in range(count)]
        return [events.write(session, one, now) for one in told]


def delivered(database: Database) -> int:
    with database.reading() as session:
        done = select(func.count()).select_from(DeliveryRow).where(DeliveryRow.state == "delivered")
        return session.execute(done).scalar_one()


@pytest.mark.parametrize(
    ("count", "share"), [(60, 0.2), pytest.param(200, 0.05, marks=pytest.mark.slow)]
)
def test_events_over_two_replicas_and_a_receiver_in_trouble_all_arrive(
    database: Database, monkeypatch: pytest.MonkeyPatch, count: int, share: float
) -> None:
    """The short form of `python -m trials.outbox`; some end between sending and noting it."""
    chance, lock, killed = random.Random(3), threading.Lock(), [0]
    note = deliveries.delivered

    def sometimes_killed(*arguments: Any) -> None:
        with lock:
            dies = chance.random() < share
            killed[0] += dies
        if dies:
            raise OSError("killed")
        note(*arguments)

    monkeypatch.setattr(deliveries, "delivered", sometimes_killed)
    monkeypatch.setattr(deliveries, "pause_after", lambda _: timedelta(0))
    monkeypatch.setattr(deliveries, "HELD", timedelta(seconds=0.5))
    written = write(database, count)
    with receiving() as receiver:
        receiver.answer = lambda _: chance.choice([OK] * 8 + [status(500), b""])
        sinks = Sinks(address="https://perf.example.com", sink=(hook(receiver.url()),))
        couriers.route(database, sinks)
        replicas = [Couriers(database, sinks, 0.05) for _ in "ab"]
        for replica in replicas:
            replica.start()
        try:
            wait_until(lambda: delivered(database) == count)
        finally:
            for replica in replicas:
                replica.stop()
        assert set(receiver.ids()) == set(written)
        bodies = {(one.headers["webhook-id"], one.body) for one in receiver.received}
        assert len(bodies) == count, "whatever comes twice is the same"
        assert len(receiver.received) >= count + killed[0] > count


@pytest.mark.parametrize(("kind", "at_once", "events"), [("webhook", 8, 16), ("slack", 1, 5)])
def test_a_program_gets_several_at_once_and_a_chat_one_after_the_other(
    database: Database, kind: str, at_once: int, events: int
) -> None:
    with receiving() as receiver:
        now, most, lock = [0], [0], threading.Lock()

        def slowly(_: int) -> bytes:
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            time.sleep(0.2)
            with lock:
                now[0] -= 1
            return OK

        receiver.answer = slowly
        chat = {"name": "ci", "kind": "slack", "url": receiver.url(), "private": True}
        to = hook(receiver.url()) if kind == "webhook" else Slack.model_validate(chat)
        sinks = Sinks(address="https://perf.example.com", sink=(to,))
        write(database, events)
        couriers.route(database, sinks)
        crew = Couriers(database, sinks, 0.05)
        crew.start()
        try:
            wait_until(lambda: delivered(database) == events)
        finally:
            crew.stop()
        assert (most[0] > 3) if at_once > 1 else (most[0] == 1)
        assert len({one.body for one in receiver.received}) == events


def test_idle_threads_end_soon(database: Database) -> None:
    crew = Couriers(database, Sinks(address="http://x", sink=(hook("https://a.example/"),)), 30.0)
    crew.start()
    began = time.monotonic()
    crew.stop()
    assert time.monotonic() - began < 5
