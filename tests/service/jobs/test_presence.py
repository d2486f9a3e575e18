"""Workers that are not heard of are told once, and once more when they are back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from service.database.session import Database, now_of
from service.jobs import workers
from service.maintenance import background
from service.maintenance.background import Background
from service.models import OutboxEvent, WorkerRow

pytestmark = pytest.mark.both_databases


def told_after(client: TestClient, silent: timedelta, *, heard: bool = True) -> list[str]:
    """What was told so far, once all workers have been silent for so long."""
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        now = now_of(session)
        session.execute(update(WorkerRow).values(last_seen_at=now - silent))
        workers.watch_presence(session, now, heard=heard)
        return list(session.scalars(select(OutboxEvent.headline).order_by(OutboxEvent.id)))


def test_a_worker_is_lost_once_and_back_once(client: TestClient, hand: Hand) -> None:
    assert told_after(client, timedelta(minutes=14)) == []
    [lost] = told_after(client, timedelta(minutes=16))
    assert lost == "Worker w1 was last heard of 16\N{NO-BREAK SPACE}min\N{NO-BREAK SPACE}ago"
    assert told_after(client, timedelta(hours=3)) == [lost]
    [_, back] = told_after(client, timedelta(seconds=8))
    assert back == "Worker w1 is heard of again, last 8\N{NO-BREAK SPACE}s\N{NO-BREAK SPACE}ago"
    assert told_after(client, timedelta(minutes=1)) == [lost, back]
    assert len(told_after(client, timedelta(minutes=20))) == 3


def test_a_worker_that_left_long_ago_is_not_told(client: TestClient, hand: Hand) -> None:
    assert told_after(client, timedelta(hours=25)) == []


def test_whom_the_service_could_not_hear_is_not_lost(client: TestClient, hand: Hand) -> None:
    assert told_after(client, timedelta(hours=1), heard=False) == []
    assert len(told_after(client, timedelta(hours=1))) == 1


def test_a_service_listens_as_long_as_a_worker_may_be_silent_before_it_tells(
    client: TestClient, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    terms = client.app.state.terms  # type: ignore[attr-defined]
    told_after(client, timedelta(hours=1), heard=False)
    clock = {"now": 1_000.0}
    monkeypatch.setattr(background.time, "monotonic", lambda: clock["now"])
    looking = Background(database, terms, 5.0)
    for minutes, lost in ((0, 0), (14, 0), (16, 1)):
        clock["now"] = 1_000.0 + 60 * minutes
        looking._look()
        with database.reading() as session:
            assert len(session.scalars(select(OutboxEvent)).all()) == lost
