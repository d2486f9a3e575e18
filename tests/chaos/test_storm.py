"""The short form of `make chaos`: a small storm on each database, real processes throughout."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from builders.postgres_server import PostgresServer

from service.database.migrate import upgrade
from trials.chaos.storm import Storm, run

SMALL = Storm(20261120, jobs=26, worker_kills=3, freezes=3, lost=0, lease_s=1.0, limit_s=150.0)
LEAST = replace(
    SMALL, workers=3, jobs=8, worker_kills=1, freezes=0, service_freezes=0, clock_jumps=0
)
"""A kill of a worker and of a service, and a restart of PostgreSQL."""
sizes = pytest.mark.parametrize(
    "storm", [LEAST, pytest.param(SMALL, marks=pytest.mark.slow)], ids=["least", "small"]
)


@sizes
def test_nothing_is_lost_or_counted_twice_on_sqlite(
    storm: Storm, sqlite_url: str, tmp_path: Path
) -> None:
    outcome = run(storm, sqlite_url, tmp_path)
    assert outcome.violations == [], outcome


@sizes
def test_nothing_is_lost_or_counted_twice_by_two_replicas_on_postgresql(
    storm: Storm, fragile_postgres: PostgresServer, tmp_path: Path
) -> None:
    name = f"storm{uuid.uuid4().hex}"
    fragile_postgres.run(f"CREATE DATABASE {name}")
    url = fragile_postgres.url(name)
    upgrade(url)

    def restart() -> None:
        fragile_postgres.crash()
        fragile_postgres.start()

    outcome = run(replace(storm, replicas=2), url, tmp_path, restart)
    assert outcome.violations == [], outcome
