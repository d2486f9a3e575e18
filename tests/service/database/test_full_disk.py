"""A database whose disk is full says so, keeps what it has, and goes on when there is room."""

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psycopg
import pytest
from builders.access import Clock
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from service.app import create_app
from service.database import health
from service.maintenance.verify import verify
from service.settings import Settings


def test_a_result_for_which_there_is_no_room_is_refused_for_now(sqlite_url: str) -> None:
    settings = Settings(database_url=sqlite_url, background=False)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        database = client.app.state.database  # type: ignore[attr-defined]
        most = [2**30]

        @event.listens_for(database.engine, "begin")
        def _limit(connection: object) -> None:
            connection.exec_driver_sql(f"PRAGMA max_page_count={most[0]}")  # type: ignore[attr-defined]

        hand = Hand(client)
        hand.introduce()
        body = {"case": {"workload": "unet"}, "revision": "r"}
        assert client.post("/api/v1/jobs", json=body).status_code == 201
        lease = hand.must_claim()
        result = result_of(lease, log_tail=Random(1).randbytes(30_000).hex())
        most[0] = 1  # as many as there are
        refused = hand.post(lease, result)
        assert (refused.status_code, refused.json()["type"]) == (503, "database-unavailable")
        assert "full" in refused.json()["detail"]
        assert "Retry-After" in refused.headers
        assert verify(database).kept
        most[0] = 2**30
        assert hand.post(lease, result).status_code == 201
        report = verify(database)
        assert (report.kept, report.results) == (True, 1)


@contextmanager
def no_room(log: Path) -> Iterator[None]:
    """Let the database's write-ahead log, and no shorter file, grow no further."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_service_that_can_write_nothing_says_so(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(health, "time", clock)
    settings = Settings(database_url=sqlite_url, background=False)
    body = {"case": {"workload": "unet"}, "revision": "r"}
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        assert client.post("/api/v1/jobs", json=body).status_code == 201
        healthy = client.get("/api/v1/health")
        assert (healthy.status_code, healthy.json()["age_s"]) == (200, 0)
        log = Path(f"{sqlite_url.removeprefix('sqlite:///')}-wal")
        with no_room(log):
            assert client.post("/api/v1/jobs", json=body).status_code == 503
            assert client.get("/api/v1/jobs").status_code == 200  # whoever only reads goes on
            clock.now_s += health.AFRESH_S
            refused = client.get("/api/v1/health")
            assert (refused.status_code, refused.json()["type"]) == (503, "database-unavailable")
            assert "disk" in refused.json()["detail"]
        clock.now_s += health.FAULT_S
        assert client.get("/api/v1/health").status_code == 200


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (psycopg.errors.DiskFull('could not extend file "base/1/2": No space left'), "is full"),
        (sqlite3.OperationalError("disk I/O error"), "fails"),
    ],
)
def test_a_disk_that_takes_nothing_is_told_from_a_database_that_is_away(
    fault: Exception, told: str
) -> None:
    known = health.explain(OperationalError("COMMIT", {}, fault))
    assert known is not None
    assert told in known.detail
