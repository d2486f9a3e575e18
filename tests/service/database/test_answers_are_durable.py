"""A client is told of nothing that was not committed, and of everything that was."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from builders.service_hand import Hand, result_of
from builders.unsynced import apply, undo
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from service.app import create_app
from service.database.session import Database
from service.settings import Settings

pytestmark = pytest.mark.both_databases

REFUSE_AT_COMMIT = """
CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE EXCEPTION ''no''; END' LANGUAGE plpgsql;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON results
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def test_a_result_that_fails_to_commit_is_not_answered_as_stored(postgres_url: str) -> None:
    settings = Settings(database_url=postgres_url, background=False)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        hand = Hand(client)
        hand.introduce()
        body = {"case": {"workload": "unet"}, "revision": "r"}
        assert client.post("/api/v1/jobs", json=body).status_code == 201
        lease = hand.must_claim()
        with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
            session.execute(text(REFUSE_AT_COMMIT))
        answer = hand.post(lease, result_of(lease))
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert client.get(f"/api/v1/jobs/{lease.job_id}").json()["state"] == "leased"


def test_what_was_answered_is_there_for_another_process(
    client: TestClient, database_url: str, hand: Hand, submit: Callable[..., Any]
) -> None:
    submit()
    result_id = hand.measure()
    other = Database(database_url)
    with other.reading() as session:
        found = session.execute(text("SELECT id, counted FROM results")).all()
    other.close()
    assert found == [(result_id, True)]


def test_reading_cannot_write(database: Database) -> None:
    with database.reading() as session, pytest.raises(DBAPIError, match=r"read-?only"):
        session.execute(text("UPDATE schedules SET enabled = false"))
    with database.writing() as session:
        session.execute(text("UPDATE schedules SET enabled = false"))


@pytest.fixture
def as_served() -> Iterator[None]:
    undo()
    yield
    apply()


@pytest.mark.usefixtures("as_served")
def test_sqlite_is_set_up_to_survive_a_power_cut(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    with database.reading() as session:
        told = {
            name: session.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    database.close()
    assert told == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
