"""A PostgreSQL that may crash: not the one that other tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from builders.postgres_server import DURABLE, PostgresServer, running


@pytest.fixture(scope="session")
def fragile_postgres() -> Iterator[PostgresServer]:
    with running(*DURABLE) as server:
        yield server
