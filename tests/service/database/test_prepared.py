"""Prepared statements store what SQLAlchemy's own would store."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from service.database.prepared import insert_rows
from service.models import UtcDateTime


def test_every_row_of_one_insertion_stores_a_time_in_the_same_form() -> None:
    table = sa.Table(
        "moments",
        sa.MetaData(),
        sa.Column("number", sa.Integer),
        sa.Column("at", UtcDateTime()),
        sa.Column("same_at", UtcDateTime()),
    )
    at = datetime(2026, 3, 10, 2, tzinfo=UTC)
    rows = [{"number": number, "at": at, "same_at": at} for number in range(3)]
    with sa.create_engine("sqlite://").connect() as connection:
        table.create(connection)
        insert_rows(connection, table, rows, frozenset({"same_at"}))
        stored = connection.execute(sa.text("SELECT at, same_at FROM moments")).all()
    assert set(stored) == {("2026-03-10 02:00:00.000000+00:00",) * 2}
    assert len(stored) == 3
