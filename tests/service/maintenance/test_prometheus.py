"""`/metrics` says how the service does, in a bounded number of lines, to whoever may read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builders import long_series as long
from builders.access import guarded
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError
from sqlalchemy import update

from service.app import create_app
from service.database.session import Database, now_of
from service.maintenance import prometheus
from service.models import Attempt, DeliveryRow, DeliveryState, EventKind, OutboxEvent, WorkerRow
from service.outbox import deliveries, events
from service.settings import MOST_PINNED, Settings

pytestmark = pytest.mark.both_databases
Values = dict[tuple[str, ...], float]
NAMES = {
    "jobs_waiting",
    "jobs_oldest_waiting_seconds",
    "leases",
    "leases_expired",
    "lease_oldest_seconds",
    "workers",
    "findings",
    "outbox_unrouted",
    "outbox_waiting",
    "outbox_lag_seconds",
    "outbox_dead",
    "series_value",
    "series_measured_timestamp_seconds",
}
WORKERS = ("well", "ill", "away", "drained")


def scraped(client: TestClient, **headers: str) -> dict[str, Values]:
    """Every metric by its name without the prefix: values by those of the labels."""
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    return {
        family.name.removeprefix("throughline_"): {
            tuple(sample.labels.values()): sample.value for sample in family.samples
        }
        for family in text_string_to_metric_families(answer.text)
    }


def reread(settings: Settings, **more: Any) -> dict[str, Values]:
    """The metrics of another replica on the same database, with other settings."""
    with TestClient(create_app(settings.model_copy(update=more))) as client:
        return scraped(client)


def test_an_empty_service_has_every_metric(client: TestClient) -> None:
    found = scraped(client)
    assert set(found) == NAMES
    assert found["leases"] == {(): 0.0}
    assert found["findings"]["regression", "open"] == 0.0
    assert found["workers"] == {(state,): 0.0 for state in WORKERS}


def test_the_queue_is_counted_by_what_it_requires(
    client: TestClient, submit: Callable[..., dict[str, Any]]
) -> None:
    submit()
    submit(requires={"gpu": "H100", "device": "cuda"})
    submit("r2", requires={"gpu": "H100", "device": "cuda"})
    found = scraped(client)
    assert found["jobs_waiting"] == {("any",): 1.0, ("device=cuda,gpu=H100",): 2.0}
    ages = found["jobs_oldest_waiting_seconds"]
    assert 0.0 <= ages["any",] < 60.0
    assert ages["any",] >= ages["device=cuda,gpu=H100",]


def test_many_classes_and_long_labels_stay_bounded(
    client: TestClient, submit: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "MOST_CLASSES", 2)
    for number in range(4):
        submit(requires={"host": f"{number}" * 60, "rack": "r" * 63})
    waiting = scraped(client)["jobs_waiting"]
    assert waiting["others",] == 2.0
    assert len(waiting) == 3
    assert max(len(label) for (label,) in waiting) == prometheus.MOST_LETTERS


def test_leases_have_an_age_and_an_end(
    client: TestClient, hand: Hand, submit: Callable[..., dict[str, Any]], database: Database
) -> None:
    submit()
    hand.must_claim()
    held = scraped(client)
    assert (held["leases"][()], held["leases_expired"][()]) == (1.0, 0.0)
    assert held["jobs_waiting"] == {}
    with database.writing() as session:
        then = now_of(session) - timedelta(hours=1)
        session.execute(update(Attempt).values(granted_at=then, lease_expires_at=then))
    late = scraped(client)
    assert late["leases_expired"][()] == 1.0
    assert 3600.0 <= late["lease_oldest_seconds"][()] < 3660.0


def test_workers_are_well_ill_away_or_drained(
    client: TestClient, hand: Hand, database: Database
) -> None:
    assert scraped(client)["workers"]["well",] == 1.0
    with database.writing() as session:
        session.execute(update(WorkerRow).values(warnings=["no persistence mode"]))
    assert scraped(client)["workers"]["ill",] == 1.0
    for age, away in ((timedelta(minutes=2), 1.0), (timedelta(days=2), 0.0)):
        with database.writing() as session:
            session.execute(update(WorkerRow).values(last_seen_at=now_of(session) - age))
        assert scraped(client)["workers"]["away",] == away
    hand.introduce()
    assert client.put("/api/v1/workers/w1/drain", json={}).is_success
    assert scraped(client)["workers"] == {(state,): float(state == "drained") for state in WORKERS}


def test_the_outbox_tells_its_lag_and_its_dead(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "outbox.toml"
    path.write_text(
        'address = "https://perf.example.com"\n[[sink]]\nname = "chat"\nkind = "slack"\n'
        'url = "https://chat.example.com/hook"\n'
    )
    with database.writing() as session:
        now = now_of(session)
        for number in range(3):
            news = events.News(EventKind.FINDING_OPENED, "slower", "Since r9.", f"f{number}")
            events.write(session, news, now - timedelta(hours=1))
        dead = deliveries.test(session, "chat", now)
        session.execute(
            update(DeliveryRow)
            .where(DeliveryRow.id == dead)
            .values(state=DeliveryState.DEAD)
        )  # fmt: skip
    assert reread(settings, outbox=path)["outbox_unrouted"][()] == 3.0
    with database.writing() as session:
        sinks = create_app(settings.model_copy(update={"outbox": path})).state.sinks.sink
        deliveries.route(session, sinks, now_of(session))
        session.execute(update(OutboxEvent).values(at=now - timedelta(hours=1)))
    found = reread(settings, outbox=path)
    assert found["outbox_unrouted"][()] == 0.0
    assert found["outbox_waiting"] == {("chat",): 3.0}
    assert found["outbox_dead"] == {("chat",): 1.0}
    assert 3600.0 <= found["outbox_lag_seconds"]["chat",] < 3660.0


def test_findings_are_counted_and_pinned_series_have_values(
    settings: Settings, database: Database
) -> None:
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(long.noisy(long.STEADY + long.DROPPED))))
        long.add(session, {40: 1.0}, disturbed="throttled")
        assert len(long.look(session)) == 1
    pinned = f"{long.SERIES}, {long.OTHER}, {'0' * 32}"
    found = reread(settings, pinned=pinned)
    assert found["findings"]["regression", "open"] == 1.0
    assert sum(found["findings"].values()) == 1.0
    [(labels, value)] = found["series_value"].items()
    assert set(labels) == {
        long.SERIES, "resnet50:full", "throughput", "img/s", "NVIDIA H200", "",
    }  # fmt: skip
    assert value == pytest.approx(95.0, rel=0.02)
    at = long.placed_at(31).timestamp()
    assert found["series_measured_timestamp_seconds"] == {(long.SERIES,): at}
    assert reread(settings)["series_value"] == {}


def test_whoever_may_read_may_scrape(database_url: str, tmp_path: Path) -> None:
    with guarded(database_url, tmp_path) as doorman:
        assert doorman.ask("GET", "/metrics").status_code == 401
        assert doorman.ask("GET", "/metrics", doorman.token("worker")).status_code == 403
        for project, seen in ((None, 2.0), ("ours", 1.0)):
            for name in ("ours", "theirs") if project is None else ():
                body = {"case": {"workload": "resnet50"}, "revision": "r", "project": name}
                admin = doorman.token("admin")
                doorman.ask("POST", "/api/v1/submissions", admin, json=body).raise_for_status()
            token = doorman.token("read", project=project)
            headers = {"Authorization": f"Bearer {token}"}
            assert scraped(doorman.client, **headers)["jobs_waiting"] == {("any",): seen}


def test_openmetrics_is_given_to_whoever_asks_for_it(client: TestClient) -> None:
    accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    answer = client.get("/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    assert client.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_pinned_series_are_checked_at_the_start() -> None:
    for wrong in ("abc", ",".join(["0" * 32] * (MOST_PINNED + 1))):
        with pytest.raises(ValidationError, match="at most 100 ids of series"):
            Settings(pinned=wrong)
