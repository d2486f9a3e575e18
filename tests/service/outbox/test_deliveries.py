"""Events reach the sinks that hear them: at least once, with one id, whatever the receiver does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from builders.receiver import OK, Receiver, closed_port, receiving, status
from sqlalchemy import select, update

from service.database.session import Database, now_of
from service.models import DeliveryRow, EventKind, OutboxEvent
from service.outbox import couriers, deliveries, events
from service.outbox.sinks import Sink, Sinks
from service.schemas.errors import Conflict, NotFound
from service.schemas.outbox import DeliveryState

pytestmark = pytest.mark.both_databases

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
ADDRESS = "https://perf.example.com"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


def sink(url: str, name: str = "ci", **more: Any) -> Sink:
    known = {"kind": "webhook", "private": True, "name": name, "url": url} | more
    secret = {"secret": SECRET} if known["kind"] == "webhook" else {}
    return Sinks.model_validate({"address": ADDRESS, "sink": [known | secret]}).sink[0]


def opened(**more: Any) -> events.News:
    known: dict[str, Any] = {
        "headline": "unet is 5 % slower",
        "sentence": "Since r9.",
        "size": 0.05,
    }
    return events.News(EventKind.FINDING_OPENED, **(known | {"subject": "f1"} | more))


def write(database: Database, *written: events.News) -> list[str]:
    with database.writing() as session:
        now = now_of(session)
        return [events.write(session, event, now) for event in written]


def route(database: Database, *sinks: Sink) -> None:
    couriers.route(database, Sinks.model_validate({"address": ADDRESS, "sink": sinks}))


def rows_of(database: Database) -> list[DeliveryRow]:
    with database.reading() as session:
        return list(session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)))


def make_due(database: Database) -> None:
    """Let the pauses after failed attempts, and claims of the killed, be over."""
    with database.writing() as session:
        session.execute(update(DeliveryRow).values(due_at=now_of(session)))


def deliver(database: Database, to: Sink, within_s: float = 5) -> bool:
    return couriers.deliver(database, to, ADDRESS, within_s)


def test_an_event_arrives_signed_as_standard_webhooks_asks(
    database: Database, receiver: Receiver
) -> None:
    to = sink(receiver.url())
    [event_id] = write(database, opened(project="main"))
    route(database, to)
    assert deliver(database, to)
    assert not deliver(database, to)
    [one] = receiver.received
    assert one.headers["webhook-id"] == event_id
    content = b".".join([event_id.encode(), one.headers["webhook-timestamp"].encode(), one.body])
    expected = base64.b64encode(hmac.new(KEY, content, hashlib.sha256).digest()).decode()
    assert one.headers["webhook-signature"] == f"v1,{expected}"
    document = json.loads(one.body)
    assert document.pop("timestamp").endswith("+00:00")
    assert document == {
        "type": "finding.opened",
        "data": {
            "headline": "unet is 5 % slower",
            "sentence": "Since r9.",
            "link": "https://perf.example.com/findings/f1",
            "project": "main",
            "size": 0.05,
            "finding": "f1",
        },
    }
    [row] = rows_of(database)
    assert (row.state, row.attempts, row.error) == ("delivered", 1, "")


def test_a_chat_gets_a_line_in_which_nothing_is_a_command(
    database: Database, receiver: Receiver
) -> None:
    to = sink(receiver.url(), kind="slack")
    write(database, opened(headline="<!channel> a & b"))
    route(database, to)
    assert deliver(database, to)
    [one] = receiver.received
    assert json.loads(one.body) == {
        "text": "Finding opened: &lt;!channel&gt; a &amp; b\n<https://perf.example.com/findings/f1>"
    }
    assert "webhook-signature" not in one.headers


def test_an_event_of_a_change_that_is_undone_is_not_told(database: Database) -> None:
    with database.session(write=True) as session:
        events.write(session, opened(), now_of(session))
        session.rollback()
    route(database, sink("http://127.0.0.1:1/"))
    assert rows_of(database) == []


@pytest.mark.parametrize(
    ("rule", "heard"),
    [
        ({}, 4),
        ({"events": ["bisection.ended"]}, 1),
        ({"project": "main"}, 1),
        ({"least": 0.04}, 3),
        ({"least": 0.06}, 1),
        ({"workloads": ["unet"]}, 2),
        ({"outcomes": ["regression"]}, 2),
        ({"outcomes": ["range"], "workloads": ["nanogpt"]}, 1),
    ],
)
def test_a_sink_hears_what_its_rules_say(
    database: Database, rule: dict[str, Any], heard: int
) -> None:
    ended = events.News(EventKind.BISECTION_ENDED, "a", "b", outcome="range")
    slower = {"outcome": "regression", "workload": "nanogpt"}
    faster = opened(size=-0.05, project="main", outcome="improvement", workload="nanogpt")
    write(database, opened(workload="unet"), faster, opened(size=0.01, **slower), ended)
    route(database, sink("http://127.0.0.1:1/", **rule))
    assert len(rows_of(database)) == heard


def test_each_event_is_routed_once_and_old_ones_not_at_all(database: Database) -> None:
    with database.writing() as session:
        now = now_of(session)
        events.write(session, opened(headline="old"), now - timedelta(days=4))
        events.write(session, opened(headline="new"), now)
    to = sink("http://127.0.0.1:1/")
    route(database, to)
    route(database, to, sink("http://127.0.0.1:1/", "late"))
    [row] = rows_of(database)
    with database.reading() as session:
        assert session.get_one(OutboxEvent, row.event_id).headline == "new"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(500, body=b"no \x1b[31m room"), "It answered 500: no [31m room"),
        (status(404), "It answered 404."),
        (status(302, "Location: http://127.0.0.1:1/"), "302: redirects are not followed."),
        (b"", "The connection failed (RemoteProtocolError)."),
        (b"SSH-2.0-x\r\n\r\n", "The connection failed (RemoteProtocolError)."),
        (None, "No answer within 0.3 s."),
    ],
    ids=["500", "404", "redirect", "closes", "other protocol", "hangs"],
)
def test_a_receiver_in_trouble_gets_it_again_later_with_the_same_id(
    database: Database, receiver: Receiver, answer: bytes | None, said: str
) -> None:
    receiver.answer = lambda number: answer if number == 0 else OK
    to = sink(receiver.url())
    write(database, opened())
    route(database, to)
    assert deliver(database, to, within_s=0.3 if answer is None else 20.0)
    [row] = rows_of(database)
    assert row.state == "waiting"
    assert said in row.error
    assert not deliver(database, to), "it is not due yet"
    make_due(database)
    assert deliver(database, to)
    [row] = rows_of(database)
    assert (row.state, row.attempts, row.error) == ("delivered", 2, "")
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_a_receiver_that_repeats_the_address_tells_no_secret_of_it(
    database: Database, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/services/T0/xoxb-secret?token=s%20ecret-of-query"
    repeated = f"Cannot POST {path}, s ecret-of-query; no room {path[:20]}"
    receiver.answer = lambda _: status(404, body=repeated.encode())
    to = sink(receiver.url() + path)
    write(database, opened())
    route(database, to)
    assert deliver(database, to)
    [row] = rows_of(database)
    shown = row.error + caplog.text
    assert "It answered 404: Cannot POST /***/T0/***?token=***" in shown
    assert "no room" in shown
    assert "secret" not in shown
    assert "ecret-" not in shown


@pytest.mark.both_databases(slow="postgresql")
def test_an_answer_that_comes_byte_by_byte_ends_in_time(
    database: Database, receiver: Receiver
) -> None:
    receiver.drip_s = 0.1
    to = sink(receiver.url())
    write(database, opened())
    route(database, to)
    assert deliver(database, to, within_s=0.5)
    assert rows_of(database)[0].error == "No answer within 0.5 s."


def test_an_endless_answer_is_not_read_to_its_end(database: Database, receiver: Receiver) -> None:
    receiver.answer = lambda _: status(500, body=b"x" * 50_000_000)
    to = sink(receiver.url())
    write(database, opened())
    route(database, to)
    assert deliver(database, to)
    assert rows_of(database)[0].error == f"It answered 500: {'x' * 200}"


def test_a_dead_letter_is_sent_again_when_somebody_asks(
    database: Database, receiver: Receiver
) -> None:
    away = sink(f"http://127.0.0.1:{closed_port()}/")
    write(database, opened())
    route(database, away)
    for _ in range(deliveries.MOST_ATTEMPTS):
        make_due(database)
        assert deliver(database, away)
    make_due(database)
    assert not deliver(database, away)
    [row] = rows_of(database)
    assert row.state == "dead"
    assert row.error == "The connection failed (ConnectError)."
    with database.writing() as session:
        deliveries.again(session, row.id, now_of(session))
    assert deliver(database, sink(receiver.url()))
    [row] = rows_of(database)
    assert (row.state, len(receiver.received)) == ("delivered", 1)
    with database.writing() as session, pytest.raises(Conflict):
        deliveries.again(session, row.id, now_of(session))
    with database.writing() as session, pytest.raises(NotFound):
        deliveries.again(session, "0" * 32, now_of(session))


def test_only_a_dead_letter_is_dismissed(database: Database) -> None:
    write(database, opened())
    route(database, sink("http://127.0.0.1:1/"))
    [row] = rows_of(database)
    with database.writing() as session, pytest.raises(Conflict):
        deliveries.dismiss(session, row.id)
    with database.writing() as session:
        session.execute(update(DeliveryRow).values(state="dead"))
        deliveries.dismiss(session, row.id)
    assert [one.state for one in rows_of(database)] == ["dismissed"]
    with database.writing() as session, pytest.raises(Conflict):
        deliveries.again(session, row.id, now_of(session))
    with database.writing() as session, pytest.raises(NotFound):
        deliveries.dismiss(session, "0" * 32)


def test_pauses_grow_until_a_night_is_over() -> None:
    longest_s = [5, 20, 80, 320, 1_280, 5_120, 20_480, 21_600, 21_600]
    for attempt, most in enumerate(longest_s, 1):
        pauses = [deliveries.pause_after(attempt).total_seconds() for _ in range(50)]
        assert most / 2 <= min(pauses) < max(pauses) <= most


def test_who_is_killed_between_sending_and_marking_leaves_it_to_be_sent_again(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = sink(receiver.url())
    write(database, opened())
    route(database, to)
    with monkeypatch.context() as patch:
        patch.setattr(deliveries, "delivered", _killed)
        with pytest.raises(SystemExit):
            deliver(database, to)
    assert not deliver(database, to), "the claim still holds"
    make_due(database)
    assert deliver(database, to)
    assert len(receiver.received) == 2
    assert len(set(receiver.ids())) == 1
    assert rows_of(database)[0].state == "delivered"


def _killed(*_: object) -> None:
    raise SystemExit


@pytest.mark.parametrize(
    ("count", "share"), [(60, 0.3), pytest.param(300, 0.1, marks=pytest.mark.slow)]
)
def test_events_all_arrive_through_crashes_faults_and_two_replicas(
    database: Database,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    share: float,
) -> None:
    chance = random.Random(7)
    bad = [status(500), status(302, "Location: /"), b"", OK]
    receiver.answer = lambda _: OK if chance.random() < 0.7 else chance.choice(bad)
    real, crashes, lock = deliveries.delivered, Counter[str](), threading.Lock()

    def sometimes_killed(*arguments: Any) -> None:
        with lock:
            killed = chance.random() < share
            crashes["killed"] += killed
        if killed:
            raise SystemExit
        real(*arguments)

    monkeypatch.setattr(deliveries, "delivered", sometimes_killed)
    monkeypatch.setattr(deliveries, "pause_after", lambda _: timedelta(0))
    monkeypatch.setattr(deliveries, "HELD", timedelta(seconds=1))
    monkeypatch.setattr(deliveries, "MOST_ATTEMPTS", 1_000)
    to = sink(receiver.url())
    written = write(database, *[opened(subject=str(n)) for n in range(count)])

    def replica() -> None:
        while any(row.state != DeliveryState.DELIVERED for row in rows_of(database)):
            try:
                if not deliver(database, to):
                    threading.Event().wait(0.05)
            except SystemExit:
                pass

    _run([threading.Thread(target=lambda: [route(database, to) for _ in "ab"]) for _ in "ab"])
    assert len(rows_of(database)) == count
    _run([threading.Thread(target=replica) for _ in range(2)])
    assert set(receiver.ids()) == set(written)
    assert crashes["killed"] > count * share / 3
    assert len(receiver.received) >= count + crashes["killed"]
    bodies = {(one.headers["webhook-id"], one.body) for one in receiver.received}
    assert len(bodies) == count, "whatever comes twice is the same"
    assert {row.state for row in rows_of(database)} == {"delivered"}


def _run(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_two_replicas_never_make_the_same_attempt(database: Database, receiver: Receiver) -> None:
    to = sink(receiver.url())
    written = write(database, *[opened(subject=str(n)) for n in range(40)])
    route(database, to)

    def replica() -> None:
        while any(row.state != DeliveryState.DELIVERED for row in rows_of(database)):
            deliver(database, to)

    _run([threading.Thread(target=replica) for _ in range(3)])
    assert sorted(receiver.ids()) == sorted(written)
