"""Times `/metrics` of a real service with a full store, on both databases.

``PYTHONPATH=.:tests python -m trials.scrapes [FILE]`` fills a database with 10,000 series, queued
jobs of 40 label sets, deliveries and findings, pins as many series as a service may, and asks for
the metrics over HTTP on the loopback. A line for each database is appended to FILE.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
from builders import long_series as long
from builders.served import serving
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from service.database.session import Database, new_id, now_of
from service.models import DeliveryRow, FindingRow, OutboxEvent, Point, SeriesRow
from service.settings import MOST_PINNED
from trials.chaos.__main__ import machine, place
from trials.load import claims

SERIES, LENGTH, JOBS, SETS, EVENTS, FINDINGS = 10_000, 10, 10_000, 40, 100_000, 1_000
WAITING = 1_000
"""Of the deliveries, one for each event; the others were made."""
SCRAPES = 200
PORTION = 10_000
SINKS = """
address = "https://perf.example.com"
[[sink]]
name = "chat"
kind = "slack"
url = "https://chat.example.com/hook"
"""


def main() -> None:
    """Measure each database, print its row and append it."""
    for kind in ("sqlite", "postgresql"):
        with place(kind) as (url, folder, _):
            database = Database(url)
            pinned = fill(database)
            if kind == "postgresql":
                with database.writing() as session:
                    session.execute(text("ANALYZE"))
            database.close()
            (folder / "outbox.toml").write_text(SINKS)
            with serving(
                url, state_dir=folder, outbox=folder / "outbox.toml", pinned=",".join(pinned)
            ) as served:
                took_ms, lines = scrape(f"http://127.0.0.1:{served.port}/metrics")
        row = {
            "database": kind,
            "series": SERIES,
            "points": SERIES * LENGTH,
            "jobs": JOBS,
            "sets": SETS,
            "deliveries": EVENTS,
            "findings": FINDINGS,
            "pinned": len(pinned),
            "scrapes": SCRAPES,
            "lines": lines,
            "median_ms": round(median(took_ms), 1),
            "p95_ms": round(sorted(took_ms)[int(SCRAPES * 0.95)], 1),
            "most_ms": round(max(took_ms), 1),
            "first_ms": round(took_ms[0], 1),
            "at": datetime.now(UTC).isoformat(),
            **machine(),
        }
        sys.stdout.write(f"{json.dumps(row)}\n")
        for file in sys.argv[1:]:
            with Path(file).open("a", encoding="utf-8") as rows:
                rows.write(f"{json.dumps(row)}\n")


def scrape(url: str) -> tuple[list[float], int]:
    """The times of scrapes in ms, and the lines of the last one."""
    took_ms = []
    with httpx2.Client() as http:
        for _ in range(SCRAPES):
            began_s = time.perf_counter()
            answer = http.get(url)
            took_ms.append((time.perf_counter() - began_s) * 1e3)
            assert answer.status_code == 200
    return took_ms, len(answer.text.splitlines())


def fill(database: Database) -> list[str]:
    """Fill a database; the ids of the series to pin, spread over all."""
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate([100.0] * LENGTH)))
    claims.fill(database, JOBS, SETS)
    ids = [f"{number:032x}" for number in range(SERIES)]
    with database.writing() as session:
        _insert(session, SeriesRow, map(_series, ids))
        _insert(session, Point, (_point(one, place) for one in ids for place in range(LENGTH)))
        now = now_of(session)
        events = [
            new_id(now - timedelta(seconds=number), number % 1000) for number in range(EVENTS)
        ]
        _insert(session, OutboxEvent, (_event(one, now) for one in events))
        _insert(session, DeliveryRow, (_delivery(*one, now) for one in enumerate(events)))
        _insert(session, FindingRow, (_finding(number, now) for number in range(FINDINGS)))
    return ids[:: SERIES // MOST_PINNED]


def _insert(session: Session, model: type[Any], rows: Iterator[dict[str, Any]]) -> None:
    kept = list(rows)
    for start in range(0, len(kept), PORTION):
        session.execute(insert(model), kept[start : start + PORTION])


def _series(series_id: str) -> dict[str, Any]:
    case = long.CASES[long.SERIES]
    return {
        "id": series_id, "case_key": f"{case.key} {series_id}",
        "case": case.model_dump(mode="json"),
        "metric": "throughput", "unit": "img/s", "direction": "higher",
        "comparability": {"hw.gpu.name": "NVIDIA H200"}, "created_at": long.START,
    }  # fmt: skip


def _point(series_id: str, number: int) -> dict[str, Any]:
    at = long.placed_at(number)
    return {
        "series_id": series_id, "revision_at": at, "revision": long.revision_of(number),
        "measured_at": at, "result_id": long.result_of(number), "value": 100.0 + number,
        "interval": "none", "replicates": 1, "environment": "e", "worker": "w",
    }  # fmt: skip


def _event(event_id: str, now: datetime) -> dict[str, Any]:
    return {
        "id": event_id, "kind": "finding.opened", "at": now, "subject": "f", "headline": "slower",
        "sentence": "Since r9.", "routed": True,
    }  # fmt: skip


def _delivery(number: int, event_id: str, now: datetime) -> dict[str, Any]:
    state = "waiting" if number < WAITING else "delivered"
    return {
        "id": event_id, "event_id": event_id, "sink": "chat", "state": state, "attempts": 1,
        "due_at": now + timedelta(hours=1),
    }  # fmt: skip


def _finding(number: int, now: datetime) -> dict[str, Any]:
    return {
        "id": f"{number:032x}", "kind": "regression", "state": "open" if number % 2 else "resolved",
        "cause": "code", "certainty": "standing", "says": {}, "measured": {},
        "first_bad": long.revision_of(1), "first_bad_at": long.placed_at(1), "comparability": {},
        "owner": "", "note": "", "opened_at": now, "version": 1,
    }  # fmt: skip


if __name__ == "__main__":
    main()
