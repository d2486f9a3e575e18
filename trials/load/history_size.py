"""What a posted result and the page of a series cost, by how many points there are already.

    PYTHONPATH=.:tests .venv/bin/python -m trials.load.history_size [POINTS ...]

SQLite. Every series has a thousand points; further series are copies of the first.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from functools import partial
from statistics import quantiles
from typing import Any

from builders import long_series as long
from sqlalchemy import select, text

from service.app import create_app
from service.database.engine import make_engine, parse
from service.models import SeriesRow
from service.settings import Access, Settings
from trials.chaos.__main__ import place
from trials.load import cost, traffic
from trials.load.line import Due
from trials.load.traffic import Material, Plan, Shape

SERIES_LENGTH = 1_000
POINTS = (10_000, 100_000, 1_000_000)
REQUESTS = 200
COPY = (
    "INSERT INTO series SELECT printf('%032x', :k), case_key || :k, \"case\", metric, unit, "
    "direction, comparability, created_at, project FROM series WHERE id = :of",
    "INSERT INTO points SELECT printf('%032x', :k), {columns} FROM points WHERE series_id = :of",
)


def main() -> None:
    """Print a line for each number of points."""
    for points in [int(one) for one in sys.argv[1:]] or POINTS:
        with place("sqlite") as (url, folder, _):
            settings = Settings(
                database_url=url, state_dir=folder, access=Access.OPEN, requests_per_s=0
            )
            app = create_app(settings)
            fill(app.state.database, url, points)
            plan = Plan(REQUESTS, 1.0 - traffic.WARM_UP_S + 1e-9, Shape.REAL, workers=5)
            material = Material.of(plan)
            attempts = traffic.prepare(app.state.database, folder, material, plan)
            due = list(traffic.requests(attempts, material.bodies, plan, [1]))
            results = [one for one in due if b"/result " in one.head]
            page = replace(results[0], head=_page(results[0]), body=b"")
            post_ms = asyncio.run(_cost(app, results))
            page_ms = asyncio.run(_cost(app, [page] * 30))
            app.state.database.close()
        sys.stdout.write(f"{points:>10,} points: result {post_ms:.2f} ms, page {page_ms:.1f} ms\n")
        sys.stdout.flush()


def fill(database: Any, url: str, points: int) -> None:
    """Store a series of a thousand points, and its copies."""
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(long.noisy([100.0] * SERIES_LENGTH))))
    engine = make_engine(parse(url), foreign_keys=False)
    with engine.begin() as connection:
        of = connection.execute(select(SeriesRow.id).where(SeriesRow.id == long.SERIES)).scalar()
        columns = [row[1] for row in connection.execute(text("PRAGMA table_info(points)"))]
        kept = ", ".join(name for name in columns if name != "series_id")
        for number in range(1, points // SERIES_LENGTH):
            for statement in COPY:
                ready = text(statement.format(columns=kept))
                connection.execute(ready, {"k": number, "of": of})
    engine.dispose()


def _page(due: Due) -> bytes:
    head = due.head.split(b"\r\n")
    return b"\r\n".join([f"GET /series/{long.SERIES} HTTP/1.1".encode(), head[1], b"", b""])


async def _cost(app: Any, requests: list[Due]) -> float:
    ask, spent_s = partial(cost.ask, app), []
    for one in requests:
        begun_s = time.process_time()
        await ask(one)
        spent_s.append(time.process_time() - begun_s)
    return 1e3 * quantiles(spent_s, n=4)[0]


if __name__ == "__main__":
    main()
