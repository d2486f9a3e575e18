"""The application on a fresh database, and a worker that speaks to it as real ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builders import kept_states
from builders import long_series as long
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update
from sqlalchemy.orm import Session

from service.app import create_app
from service.database.session import Database, now_of
from service.jobs import expiry, types
from service.models import Job
from service.settings import Settings


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    artifacts = str(tmp_path / "artifacts")
    return Settings(database_url=database_url, artifacts=artifacts, background=False)


@pytest.fixture
def session(database: Database, request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session on a database that has two series of one workload, without points."""
    with database.writing() as session:
        long.prepare(session)
        if "monkeypatch" not in request.fixturenames:  # else its points may be analysed otherwise
            kept_states.begin(session)
        yield session


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """The whole application over HTTP, without its background thread."""
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def hand(client: TestClient) -> Hand:
    """A worker that has introduced itself."""
    worker = Hand(client)
    worker.introduce(device="cpu")
    return worker


@pytest.fixture
def submit(client: TestClient) -> Callable[..., dict[str, Any]]:
    """Submit one case."""

    def call(
        revision: str = "r1", workload: str = "resnet50", axes: Any = None, **more: Any
    ) -> dict[str, Any]:
        body = {"case": {"workload": workload, "axes": axes or {}}, "revision": revision, **more}
        answer = client.post("/api/v1/submissions", json=body)
        assert answer.status_code == 201, answer.text
        told: dict[str, Any] = answer.json()
        return told

    return call


@pytest.fixture
def expire(client: TestClient) -> Callable[[], types.Swept]:
    """Let every lease expire: a sweep as it will look an hour from now."""
    app = client.app
    database, terms = app.state.database, app.state.terms  # type: ignore[attr-defined]

    def sweep() -> types.Swept:
        with database.writing() as session:
            now = now_of(session)
            swept = expiry.sweep(session, terms, now + timedelta(hours=1))
            # Put back what the sweep dated into the future.
            session.execute(update(Job).values(queued_at=now))
        return swept

    return sweep
