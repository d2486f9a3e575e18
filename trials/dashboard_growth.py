"""How the dashboard's pages grow with the history: 30 nights beside ten million points.

``PYTHONPATH=.:tests python -m trials.dashboard_growth FOLDER PATH... --rows FILE`` copies the
history that ``trials.dashboard_pages make FOLDER`` has made into PostgreSQL: once its last 30
nights alone, once with copies of all its jobs, results and points, each 60 nights older than the
one after it. They are inserted straight into the tables: over the API they would take a day.
Results of copies have no document; no page of the newest nights reads one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from builders.postgres_server import running
from sqlalchemy import Connection, Engine, func, insert, select, text

from service.database.engine import make_engine, parse
from service.database.migrate import upgrade
from service.models import Base, Point
from trials.dashboard_pages import NIGHTS, row_of, served
from trials.nights.service import NIGHT

POINTS = 10_000_000
REQUESTS = 25
BATCH = 1_000
SECONDARY = "SELECT indexdef FROM pg_indexes WHERE tablename IN ('points', 'results', 'jobs')"
GROWN = ("revisions", "jobs", "results", "points")
COPY = "INSERT INTO {table} ({columns}) SELECT {values} FROM {table}, generate_series(1, :copies) k"


def main() -> None:
    """Print, and write, a row for each page and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="+")
    parser.add_argument("--rows", type=Path, help="append them to this file as well")
    asked = parser.parse_args()
    with running("-c", "shared_buffers=1GB", "-c", "autovacuum=off") as server:
        for points in (0, POINTS):
            name = f"of_{points}"
            server.run(f"CREATE DATABASE {name}")
            size = _filled(server.url(name), asked.folder, points)
            for row in _measured(server.url(name), asked.pages, size):
                line = f"{json.dumps(row)}\n"
                sys.stdout.write(line)
                sys.stdout.flush()
                if asked.rows:
                    with asked.rows.open("a", encoding="utf-8") as file:
                        file.write(line)


def _measured(url: str, pages: list[str], points: int) -> list[dict[str, object]]:
    label = f"postgresql, {points:,} points"
    with tempfile.TemporaryDirectory() as folder, served(url, Path(folder)):
        for page in pages:
            row_of(page, label, requests=3)
        return [row_of(page, label, REQUESTS) | {"points": points} for page in pages]


def _filled(url: str, folder: Path, points: int) -> int:
    """Fill a database; how many points it has then."""
    began_s = time.monotonic()
    upgrade(url)
    kept = make_engine(parse(f"sqlite:///{folder}/nights.sqlite3"))
    new = make_engine(parse(url), foreign_keys=False)
    with new.begin() as connection:
        connection.execute(text("SET session_replication_role = replica"))
        _copy(kept, connection)
        if points:
            _grow(connection, points)
        else:
            _cut(connection)
    with new.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
        size = connection.scalar(select(func.count()).select_from(Point)) or 0
    for engine in (kept, new):
        engine.dispose()
    sys.stderr.write(f"{size:,} points after {time.monotonic() - began_s:.0f} s\n")
    return size


def _copy(kept: Engine, connection: Connection) -> None:
    """Copy every row of every table."""
    with kept.connect() as reading:
        for table in Base.metadata.sorted_tables:
            if connection.scalar(select(func.count()).select_from(table)):
                connection.execute(table.delete())
            rows = reading.execution_options(yield_per=BATCH).execute(select(table))
            for part in rows.mappings().partitions():
                connection.execute(insert(table), [dict(row) for row in part])


def _cut(connection: Connection) -> None:
    """Keep the newer half of the nights."""
    newest: datetime | None = connection.scalar(select(func.max(Point.revision_at)))
    assert newest is not None
    since: dict[str, Any] = {"since": newest - NIGHT * (NIGHTS // 2)}
    connection.execute(text("DELETE FROM points WHERE revision_at < :since"), since)
    connection.execute(text("DELETE FROM results WHERE measured_at < :since"), since)
    connection.execute(text("DELETE FROM jobs WHERE created_at < :since"), since)


def _grow(connection: Connection, points: int) -> None:
    """Put copies of all points before them, without their secondary indexes meanwhile."""
    own = connection.scalar(select(func.count()).select_from(Point)) or 1
    indexes = [one for one in connection.scalars(text(SECONDARY)) if "UNIQUE" not in one]
    for definition in indexes:
        connection.execute(text(f"DROP INDEX {definition.split()[2]}"))
    hours = NIGHT * NIGHTS / timedelta(hours=1)
    back = f"k * interval '{hours} hours'"
    older = {
        "revisions": {"name": "'o' || k || '-' || name", "ordered_at": f"ordered_at - {back}",
                      "first_seen_at": f"first_seen_at - {back}"},
        "results": {"id": "lpad(to_hex(k), 6, '0') || substr(id, 7)",
                    "job_id": "lpad(to_hex(k), 6, '0') || substr(job_id, 7)",
                    "digest": "'o' || k || '-' || substr(digest, 1, 40)",
                    "revision": "'o' || k || '-' || revision",
                    "measured_at": f"measured_at - {back}", "received_at": f"received_at - {back}",
                    "document": "''::bytea"},
        "jobs": {"id": "lpad(to_hex(k), 6, '0') || substr(id, 7)",
                 "group_id": "lpad(to_hex(k), 6, '0') || substr(group_id, 7)",
                 "queued_at": f"queued_at - {back}",
                 "created_at": f"created_at - {back}", "finished_at": f"finished_at - {back}"},
        "points": {"revision_at": f"revision_at - {back}", "measured_at": f"measured_at - {back}",
                   "revision": "'o' || k || '-' || revision",
                   "result_id": "lpad(to_hex(k), 6, '0') || substr(result_id, 7)"},
    }  # fmt: skip
    for table in GROWN:
        columns = [one.name for one in Base.metadata.tables[table].columns]
        statement = COPY.format(
            table=table,
            columns=", ".join(f'"{name}"' for name in columns),
            values=", ".join(older[table].get(name, f'"{name}"') for name in columns),
        )
        connection.execute(text(statement), {"copies": points // own})
    for definition in indexes:
        connection.execute(text(definition))


if __name__ == "__main__":
    main()
