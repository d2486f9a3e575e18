"""A database whose disk is full says so, keeps what it has, and goes on when there is room."""

from random import Random

from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import event

from service.app import create_app
from service.settings import Settings
from service.verify import verify


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
