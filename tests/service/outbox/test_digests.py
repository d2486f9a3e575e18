"""Quiet hours hold back and lose nothing; a digest tells a day in one message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from builders.receiver import Receiver, receiving
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update

from service.database.session import Database, now_of
from service.models import DeliveryRow, EventKind, OutboxEvent
from service.outbox import couriers, deliveries, digests, events, hours
from service.outbox.sinks.slack import Slack

BERLIN = ZoneInfo("Europe/Berlin")
MORNING = datetime(2026, 1, 27, 6, 30, tzinfo=UTC)  # 07:30 in Berlin
both_databases = pytest.mark.both_databases


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


def chat(url: str = "http://127.0.0.1:1/", **more: Any) -> Slack:
    known = {"name": "chat", "kind": "slack", "url": url, "private": True}
    return Slack.model_validate(known | {"timezone": "Europe/Berlin"} | more)


def write(database: Database, headline: str, at: datetime) -> None:
    with database.writing() as session:
        news = events.News(EventKind.FINDING_OPENED, headline, "Since r9.", "f1")
        events.write(session, news, at)


def rows_of(database: Database) -> list[DeliveryRow]:
    with database.reading() as session:
        return list(session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)))


def look(database: Database, sink: Slack, at: datetime) -> None:
    """What a replica does when it looks at a time."""
    with database.writing() as session:
        deliveries.route(session, [sink], at)
        digests.write_due(session, [sink], at)


def digests_of(database: Database) -> list[OutboxEvent]:
    with database.reading() as session:
        kind = OutboxEvent.kind == EventKind.DIGEST
        return list(session.scalars(select(OutboxEvent).where(kind).order_by(OutboxEvent.id)))


@pytest.mark.parametrize(
    ("quiet", "at", "until"),
    [
        ("22:00-07:00", "2026-11-27T21:59", None),
        ("22:00-07:00", "2026-11-27T22:00", "2026-11-28T07:00"),
        ("22:00-07:00", "2026-11-28T06:59", "2026-11-28T07:00"),
        ("22:00-07:00", "2026-11-28T07:00", None),
        ("12:00-13:30", "2026-11-28T12:30", "2026-11-28T13:30"),
        ("12:00-13:30", "2026-11-28T14:00", None),
        ("22:00-07:00", "2026-10-24T23:00", "2026-10-25T07:00"),  # the hour that comes twice
        ("22:00-02:30", "2026-03-28T23:00", "2026-03-29T03:30"),  # the hour that is skipped
    ],
)
def test_quiet_hours_end_where_the_clock_hangs(quiet: str, at: str, until: str | None) -> None:
    now = datetime.fromisoformat(at).replace(tzinfo=BERLIN)
    expected = None if until is None else datetime.fromisoformat(until).replace(tzinfo=BERLIN)
    assert hours.quiet_until(quiet, BERLIN, now.astimezone(UTC)) == expected


@given(st.integers(0, 366 * 1_440), st.times())
def test_the_newest_moment_is_not_ahead_and_the_next_not_behind(minutes: int, at: time) -> None:
    here = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    at = at.replace(second=0, microsecond=0)
    newest, following = hours.newest(at, BERLIN, here), hours.following(at, BERLIN, here)
    assert newest <= here < following
    assert following - newest <= timedelta(hours=25)


@both_databases
def test_what_comes_in_quiet_hours_is_sent_at_their_end_and_a_test_at_once(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"now": datetime(2026, 11, 27, 23, tzinfo=UTC)}
    monkeypatch.setattr(couriers, "now_of", lambda _: clock["now"])
    sink = chat(receiver.url(), quiet="22:00-07:00")
    for number in range(5):
        write(database, f"change {number}", clock["now"])
    look(database, sink, clock["now"])
    with database.writing() as session:
        deliveries.test(session, "chat", clock["now"])
    assert couriers.deliver(database, sink, "https://perf.example.com")
    assert not couriers.deliver(database, sink, "https://perf.example.com")
    assert b"Test:" in receiver.received[0].body
    clock["now"] = datetime(2026, 11, 28, 5, 59, 59, tzinfo=UTC)
    assert not couriers.deliver(database, sink, "https://perf.example.com")
    clock["now"] = datetime(2026, 11, 28, 6, tzinfo=UTC)  # 07:00 in Berlin
    while couriers.deliver(database, sink, "https://perf.example.com"):
        pass
    assert len(receiver.received) == 6
    assert {row.state for row in rows_of(database)} == {"delivered"}


@both_databases
def test_a_digest_tells_each_event_once_in_one_message_a_day(
    database: Database, receiver: Receiver
) -> None:
    sink = chat(receiver.url(), digest="07:30")
    evening = MORNING - timedelta(hours=9)
    for place, headline in enumerate(("unet is slower", "nanogpt is <b>faster</b>")):
        write(database, headline, evening + timedelta(milliseconds=place))
    look(database, sink, evening + timedelta(seconds=1))
    look(database, sink, MORNING - timedelta(seconds=1))
    assert digests_of(database) == []
    for _ in range(2):
        look(database, sink, MORNING)
    [digest] = digests_of(database)
    assert digest.headline == "2 events"
    write(database, "later", MORNING + timedelta(minutes=5))
    look(database, sink, MORNING + timedelta(hours=1))
    assert len(digests_of(database)) == 1, "the next one is tomorrow's"
    look(database, sink, MORNING + timedelta(days=1))
    look(database, sink, MORNING + timedelta(days=2))
    assert [one.sentence for one in digests_of(database)] == [
        "Finding opened: unet is slower\nFinding opened: nanogpt is <b>faster</b>",
        "Finding opened: later",
    ]
    while couriers.deliver(database, sink, "https://perf.example.com"):
        pass
    assert json.loads(receiver.received[0].body)["text"] == (
        "Digest: 2 events\nFinding opened: unet is slower\n"
        "Finding opened: nanogpt is &lt;b&gt;faster&lt;/b&gt;\n"
        "<https://perf.example.com/findings>"
    )
    states = [row.state for row in rows_of(database)]
    assert sorted(states) == ["delivered"] * 2 + ["gathered"] * 3


def test_a_digest_of_nothing_is_sent_only_where_asked_for(database: Database) -> None:
    look(database, chat(digest="07:30"), MORNING)
    assert digests_of(database) == []
    asked = chat(digest="07:30", empty_digest=True)
    look(database, asked, MORNING + timedelta(hours=2))
    assert digests_of(database) == [], "it is too late for this morning's"
    look(database, asked, MORNING + timedelta(days=1))
    assert [one.headline for one in digests_of(database)] == ["Nothing happened"]


def test_a_digest_lists_no_more_than_a_person_reads(database: Database) -> None:
    sink = chat(digest="07:30")
    with database.writing() as session:
        for number in range(digests.LISTED + 7):
            news = events.News(EventKind.FINDING_OPENED, f"change {number}", "", "f")
            events.write(session, news, MORNING - timedelta(hours=1))
    look(database, sink, MORNING - timedelta(hours=1))
    look(database, sink, MORNING)
    [digest] = digests_of(database)
    assert digest.details is not None
    assert (len(digest.details["listed"]), digest.details["more"]) == (100, 7)
    assert digest.sentence.endswith("and 7 earlier")
    assert {row.state for row in rows_of(database)} == {"gathered", "waiting"}


@both_databases
def test_what_was_told_is_removed_after_its_time_and_what_is_dead_is_not(
    database: Database,
) -> None:
    old, lately = (datetime.now(UTC) - timedelta(days=days) for days in (91, 1))
    states = ["delivered", "dismissed", "dead", "waiting", "gathered", "gathered"]
    with database.writing() as session:
        for state in states:
            deliveries.test(session, f"old-{state}", old)
            deliveries.test(session, f"new-{state}", lately)
        for row in session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)):
            row.state = row.sink.partition("-")[2]
        of_old = DeliveryRow.sink == "old-gathered"
        told = session.scalars(select(DeliveryRow.id).where(of_old)).first()
        session.execute(update(DeliveryRow).where(DeliveryRow.id == told).values(delivered_at=old))
        events.write(session, events.News(EventKind.NIGHT_REPORTED, "a", "b", "2026-01-01"), old)
        session.flush()
        deliveries.remove_old(session, now_of(session))
    left = [row.sink for row in rows_of(database)]
    assert sorted(name for name in left if name.startswith("old")) == [
        "old-dead",
        "old-gathered",
        "old-waiting",
    ]
    assert len(left) == 3 + len(states)
    with database.reading() as session:
        known = set(session.scalars(select(OutboxEvent.id)))
        assert known == {row.event_id for row in rows_of(database)}
