"""A test finds a database as if nobody had used it before."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from builders.lent_databases import LentDatabases
from builders.postgres_server import PostgresServer

COUNTED = "SELECT nextval('job_events_id_seq')"


@pytest.fixture
def lent(postgres: PostgresServer) -> LentDatabases:
    return LentDatabases(postgres)


def use(postgres: PostgresServer, name: str, *statements: str) -> None:
    with psycopg.connect(postgres.url(name)) as connection:
        for statement in statements:
            connection.execute(statement)


def read(postgres: PostgresServer, name: str, query: str) -> list[Any]:
    with psycopg.connect(postgres.url(name)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("rows", [3, 20_000], ids=["a few rows", "many rows"])
def test_rows_and_numbers_are_as_they_were(
    postgres: PostgresServer, lent: LentDatabases, rows: int
) -> None:
    made = (
        "INSERT INTO audit_events (id, at, actor, action, object)"
        f" SELECT n, now(), 'me', 'did', repeat('x', 50) FROM generate_series(1, {rows}) n"
    )
    with lent.lent() as first:
        before = read(postgres, first, "TABLE schedules")
        use(postgres, first, made, "DELETE FROM schedules", COUNTED)
        left_open = psycopg.connect(postgres.url(first))
    with lent.lent() as again:
        assert again == first
        assert read(postgres, again, "TABLE schedules") == before != []
        assert read(postgres, again, "SELECT count(*) FROM audit_events") == [(0,)]
        assert read(postgres, again, COUNTED) == [(1,)]
        with pytest.raises(psycopg.OperationalError):
            left_open.execute("SELECT 1")
    left_open.close()


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE audit_events CASCADE",
        "ALTER TABLE jobs ADD COLUMN more integer",
        "ALTER TABLE jobs DISABLE TRIGGER ALL",
        "ALTER TABLE jobs ALTER COLUMN reason SET DEFAULT 'x'",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = 64', current_database());"
        " END $$",
        "UPDATE alembic_version SET version_num = '0000'",
        "ALTER TABLE alembic_version RENAME TO other",
    ],
)
def test_one_that_was_changed_is_not_lent_again(
    postgres: PostgresServer, lent: LentDatabases, change: str
) -> None:
    with lent.lent() as first:
        use(postgres, first, change)
    with lent.lent() as second:
        assert second != first
        assert read(postgres, second, "TABLE audit_events") == []
    gone = f"SELECT FROM pg_database WHERE datname = '{first}'"
    assert read(postgres, "postgres", gone) == []
