"""How long the explorer takes until its chart answers: many long series, a real Chromium.

    python -m trials.explorer --write    # 20 series of 10,000 points, five times

A chart is interactive once it is drawn and the page's thread is free again: a pointer over a point
then shows its label. The service runs in a process of its own, as for readers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import psutil
from builders import long_series as long
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import insert
from sqlalchemy.orm import Session

from benchmarks.contracts import Case
from service.database.migrate import upgrade
from service.database.session import Database
from service.models import EnvironmentRow, Point, Revision, SeriesRow, WorkerRow
from trials.chaos.replica import Replica

ROWS = Path("benchmarks/results/dashboard/explorer.jsonl")
CHANGE = 0.03
READY = "() => document.querySelector('.plot .scatterlayer path')"
SPOT = """() => {
  const plot = document.querySelector('.plot');
  const trace = plot.data.find((one) => one.customdata), at = trace.x.length >> 1;
  const box = plot.querySelector('.nsewdrag').getBoundingClientRect();
  const { xaxis, yaxis } = plot._fullLayout;
  return [box.x + xaxis.d2p(trace.x[at]), box.y + yaxis.d2p(trace.y[at])];
}"""
COUNT = """() => document.querySelector('.plot').data.reduce(
  (sum, one) => sum + (one.customdata?.length ?? 0), 0)"""


def fill(url: str, series: int, points: int) -> None:
    """Store so many long histories, each with a change in its middle."""
    upgrade(url)
    database = Database(url)
    with database.writing() as session:
        at = [long.START + timedelta(hours=number) for number in range(points)]
        names = [f"{number:040x}" for number in range(points)]
        seen = {"first_seen_at": long.START}
        session.add(WorkerRow(name="w", labels={}, version="", last_seen_at=long.START, **seen))
        session.add(EnvironmentRow(digest="e" * 64, facts={}, **seen))
        session.flush()
        rows = [
            {"name": name, "ordered_at": when, "dated": True, "title": "Change", **seen}
            for name, when in zip(names, at, strict=True)
        ]
        session.execute(insert(Revision), rows)
        for number in range(series):
            _add(session, number, names, at)
    database.close()


def _add(session: Session, number: int, names: list[str], at: list[datetime]) -> None:
    case = Case(workload="unet", preset="full", axes={"batch": str(number + 1)})
    series_id, half = f"{number:032x}", len(names) // 2
    session.add(
        SeriesRow(
            id=series_id, case_key=case.key, case=case.model_dump(mode="json"),
            metric="throughput", unit="img/s", direction="higher",
            comparability={"hw.gpu.name": "NVIDIA H200"}, created_at=long.START,
        )
    )  # fmt: skip
    session.flush()
    level = 100.0 * (number + 5)
    values = long.noisy([level] * half + [level * (1 - CHANGE)] * (len(names) - half), number)
    points = [
        {
            "series_id": series_id, "revision_at": when, "revision": name, "measured_at": when,
            "result_id": f"{number:016x}{place:016x}", "value": value, "low": value * 0.995,
            "high": value * 1.005, "interval": "replicates", "replicates": 3,
            "environment": "e" * 64, "worker": "w", "excluded": False,
        }
        for place, (name, when, value) in enumerate(zip(names, at, values, strict=True))
    ]  # fmt: skip
    session.execute(insert(Point), points)


@contextmanager
def served(series: int, points: int) -> Iterator[Replica]:
    """A service on such a database, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/explorer.sqlite3"
        fill(url, series, points)
        replica = Replica(url, Path(folder), STATE_DIR=folder, BACKGROUND="false")
        try:
            replica.start()
            replica.wait()
            yield replica
        finally:
            replica.kill()


def timed(browser: Browser, replica: Replica) -> dict[str, float]:
    """Open the explorer in a window of its own: seconds until it is drawn, and until it answers.

    Beside them processor seconds, which other work on the machine does not lengthen: of the page's
    thread, and of the service.
    """
    assert replica.process is not None
    service = psutil.Process(replica.process.pid)
    address = f"http://127.0.0.1:{replica.port}"
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    line = context.new_cdp_session(page)
    line.send("Performance.enable", {"timeDomain": "threadTicks"})
    before, began = sum(service.cpu_times()[:2]), time.perf_counter()
    page.goto("/explore?workload=unet", wait_until="commit")
    page.wait_for_function(READY)
    drawn = time.perf_counter()
    page.mouse.move(*page.evaluate(SPOT))
    page.wait_for_selector(".hoverlayer .hovertext", state="attached")
    answered, after = time.perf_counter(), sum(service.cpu_times()[:2])
    metrics = line.send("Performance.getMetrics")["metrics"]
    thread_s = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
    points = page.evaluate(COUNT)
    context.close()
    return {
        "drawn_s": drawn - began,
        "interactive_s": answered - began,
        "page_cpu_s": thread_s,
        "service_cpu_s": after - before,
        "points_drawn": points,
    }


def main() -> None:
    """Measure and write the row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="add the row to the results")
    asked = parser.parse_args()
    program = os.environ.get("THROUGHLINE_CHROMIUM") or shutil.which("chromium")
    with served(asked.series, asked.points) as replica, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        first, *rows = [timed(browser, replica) for _ in range(asked.times + 1)]
        browser.close()
    row = {
        "series": asked.series, "points": asked.points, "times": asked.times,
        "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
        "points_drawn": first.pop("points_drawn"),
        "first_interactive_s": round(first["interactive_s"], 3),
        "worst_interactive_s": round(max(one["interactive_s"] for one in rows), 3),
        **{name: round(statistics.median(one[name] for one in rows), 3) for name in first},
    }  # fmt: skip
    print(json.dumps(row))
    if asked.write:
        with ROWS.open("a") as rows_file:
            rows_file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
