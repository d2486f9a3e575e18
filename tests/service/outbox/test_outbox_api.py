"""The outbox over HTTP, with the couriers at work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.receiver import Receiver, receiving, status
from builders.served import wait_until
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.app import create_app
from service.database.session import Database, now_of
from service.models import DeliveryRow, EventKind
from service.outbox import events
from service.settings import Settings

API = "/api/v1/outbox"
pytestmark = pytest.mark.both_databases


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def client(database_url: str, receiver: Receiver, tmp_path: Path) -> Iterator[TestClient]:
    """A service that sends what it has to a chat on the loopback, at once."""
    path = tmp_path / "outbox.toml"
    path.write_text(
        f"""
address = "https://perf.example.com"
[[sink]]
name = "chat"
kind = "slack"
url = "{receiver.url()}"
private = true
"""
    )
    settings = Settings(database_url=database_url, outbox=path, sweep_s=0.05, confirmations=0)
    with TestClient(create_app(settings.model_copy(update={"role": "web"}))) as client:
        yield client


def database_of(client: TestClient) -> Database:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    return database


def test_an_event_is_sent_by_the_service_that_runs(client: TestClient, receiver: Receiver) -> None:
    event = events.News(EventKind.FINDING_OPENED, "unet is slower", "Since r9.", "f1")
    with database_of(client).writing() as session:
        events.write(session, event, now_of(session))
    wait_until(lambda: client.get(f"{API}?state=delivered").json()["items"])
    [one] = client.get(API).json()["items"]
    assert (one["sink"], one["event"], one["attempts"]) == ("chat", "finding.opened", 1)
    assert one["headline"] == "unet is slower"
    assert len(receiver.received) == 1


def test_a_test_is_sent_at_once(client: TestClient, receiver: Receiver) -> None:
    made = client.post(f"{API}/tests", json={"sink": "chat"})
    assert (made.status_code, made.json()["state"]) == (201, "waiting")
    wait_until(lambda: receiver.received)
    said = "Test: A test of this sink\n<https://perf.example.com/>"
    assert json.loads(receiver.received[0].body) == {"text": said}
    unknown = client.post(f"{API}/tests", json={"sink": "chatt"})
    assert (unknown.status_code, unknown.json()["detail"]) == (
        404,
        "THROUGHLINE_OUTBOX names no such sink.",
    )


def test_a_dead_letter_is_shown_and_sent_again(client: TestClient, receiver: Receiver) -> None:
    receiver.answer = lambda number: status(410) if number == 0 else status(200)
    made = client.post(f"{API}/tests", json={"sink": "chat"}).json()
    again = f"{API}/{made['id']}/again"
    wait_until(lambda: client.get(API).json()["items"][0]["error"] == "It answered 410.")
    assert client.post(again).status_code == 409
    with database_of(client).writing() as session:
        session.execute(update(DeliveryRow).values(state="dead"))
    [dead] = client.get(f"{API}?state=dead").json()["items"]
    assert dead["id"] == made["id"]
    assert client.post(again).json()["state"] == "waiting"
    wait_until(lambda: client.get(f"{API}?state=delivered").json()["items"])
    assert len(receiver.received) == 2
