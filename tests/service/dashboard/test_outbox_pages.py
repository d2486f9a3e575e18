"""The page of the outbox says what was sent, and offers to send a dead letter again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders.html_page import faults, links
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.app import create_app
from service.database.session import now_of
from service.models import DeliveryRow
from service.outbox import deliveries
from service.settings import Settings


def test_a_dead_letter_is_shown_with_its_error_and_a_button(empty_pages: TestClient) -> None:
    assert "Nothing was sent yet" in empty_pages.get("/outbox").text
    assert "/outbox" in links(empty_pages.get("/findings").text)
    app: Any = empty_pages.app
    with app.state.database.writing() as session:
        first, _ = (deliveries.test(session, name, now_of(session)) for name in ("chat", "ci"))
        dead = update(DeliveryRow).where(DeliveryRow.id == first)
        session.execute(dead.values(state="dead", error="It answered 500: <b>", attempts=10))
    text = empty_pages.get("/outbox").text
    assert faults(text) == []
    assert "10 attempts" in text
    assert "It answered 500: &lt;b&gt;" in text
    assert text.count("Send again") == 1
    path = f"/api/v1/outbox/{first}/again"
    assert f'data-send="POST {path}"' in text
    assert empty_pages.post(path, json={}).status_code == 200, "as the page's script sends it"
    assert "Send again" not in empty_pages.get("/outbox").text


def test_a_test_is_sent_by_a_click_to_one_of_the_sinks(sqlite_url: str, tmp_path: Path) -> None:
    path = tmp_path / "outbox.toml"
    path.write_text(
        'address = "https://perf.example.com"\n[[sink]]\nname = "chat"\nkind = "slack"\n'
        'url = "https://hooks.example.com/x"\n'
    )
    settings = Settings(database_url=sqlite_url, background=False, outbox=path)
    with TestClient(create_app(settings)) as pages:
        text = pages.get("/outbox").text
        assert faults(text) == []
        assert "<option>chat</option>" in text
        assert 'data-send="POST /api/v1/outbox/tests"' in text
        made = pages.post("/api/v1/outbox/tests", json={"sink": "chat"})
        assert made.status_code == 201, "as the page's script sends it"


def test_a_dead_letter_is_given_up_by_a_click(empty_pages: TestClient) -> None:
    app: Any = empty_pages.app
    with app.state.database.writing() as session:
        dead = deliveries.test(session, "ci", now_of(session))
        session.execute(update(DeliveryRow).values(state="dead"))
    path = f"/api/v1/outbox/{dead}/dismiss"
    assert f'data-send="POST {path}"' in empty_pages.get("/outbox").text
    assert empty_pages.post(path, json={}).status_code == 200
    text = empty_pages.get("/outbox").text
    assert "<b>dismissed</b>" in text
    assert f'data-send="POST {path}"' not in text
