"""Imports a history of another tool into a fresh service, and measures until all of it is judged.

``PYTHONPATH=.:tests python -m trials.imports FILE [--postgresql]`` makes benchmarks with noise of
1 % over many commits; every fourth becomes 5 % slower once. A service of this checkout takes them
as `throughline import` sends them, and judges beside. A row with the times is appended to FILE.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import numpy as np
from builders.postgres_server import DURABLE, running

from cli import foreign_points
from cli.client import ServiceClient
from cli.staging import Staging
from service.schemas.measured_elsewhere import ForeignPoint
from trials.live_service import here, service_and_workers

PORT = 8791
FIRST = datetime(2020, 1, 1, tzinfo=UTC)
NOISE, STEP, EVERY = 0.01, 1.05, 4
NEAR = 3
"""Commits by which a step may be placed beside its own."""
WAIT_S = 600.0


def main() -> None:
    """Import, wait until everything is judged, and append a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--benchmarks", type=int, default=100)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--postgresql", action="store_true", help="by default SQLite")
    options = parser.parse_args()
    with (
        TemporaryDirectory() as name,
        _database(postgresql=options.postgresql) as settings,
        service_and_workers(Path(name), PORT, settings, ()),
    ):
        row = trial(options.benchmarks, options.commits)
    row |= {"at": datetime.now(UTC).isoformat(), "load": os.getloadavg()[0]}
    row |= {"database": "postgresql" if options.postgresql else "sqlite", "cores": os.cpu_count()}
    with options.file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
    print(row)


@contextmanager
def _database(*, postgresql: bool) -> Iterator[dict[str, str]]:
    """Settings that name a fresh database; none for SQLite in the state folder."""
    if not postgresql:
        yield {}
        return
    with running(*DURABLE) as server:
        server.run("CREATE DATABASE trial")
        yield {"THROUGHLINE_DATABASE_URL": server.url("trial")}


def trial(benchmarks: int, commits: int) -> dict[str, Any]:
    """Import that many points into the service that runs, and say what it took and found."""
    points = [ForeignPoint.model_validate(one) for one in history(benchmarks, commits)]
    with httpx2.Client(base_url=f"{here(PORT)}/api/v1/", timeout=120) as client:
        from_s = time.monotonic()
        with ServiceClient(here(PORT), token="") as importer, Staging(points) as staged:
            foreign_points.send(importer, "trial", None, staged)
        imported_s = time.monotonic() - from_s
        listed = get(client, f"series?limit={benchmarks}")["items"]
        series = {one["id"]: int(one["case"]["workload"][-3:]) for one in listed}
        analyses = judged(client, series, commits)
        judged_s = time.monotonic() - from_s
        findings = get(client, "findings?limit=200")["items"]
    return {
        "points": len(points),
        "series": len(series),
        "imported_s": round(imported_s, 1),
        "judged_s": round(judged_s, 1),
        **told({series[one]: analysis for one, analysis in analyses.items()}, commits),
        "findings": len(findings),
    }


def history(benchmarks: int, commits: int) -> Iterator[dict[str, Any]]:
    """Yield every point, commit by commit."""
    noise = np.random.default_rng(1).normal(1.0, NOISE, (commits, benchmarks))
    for commit in range(commits):
        at = (FIRST + timedelta(hours=commit)).isoformat()
        for number in range(benchmarks):
            slow = number % EVERY == 0 and commit >= step_of(number, commits)
            yield {
                "benchmark": f"suite.bench_{number:03d}",
                "metric": "time",
                "unit": "s",
                "direction": "lower",
                "values": (float(noise[commit, number]) * (STEP if slow else 1.0),),
                "revision": f"{commit:040x}",
                "committed_at": at,
                "at": at,
                "machine": {"machine": "trial"},
            }


def step_of(number: int, commits: int) -> int:
    """The commit at which a benchmark becomes slower: spread over the history."""
    return commits // 10 + number * 8 * commits // 1_000


def judged(client: httpx2.Client, series: Collection[str], commits: int) -> dict[str, Any]:
    """Wait until every series is analysed with all its points; the analyses by series."""
    done: dict[str, Any] = {}
    until_s = time.monotonic() + WAIT_S
    while len(done) < len(series):
        for one in series:
            if one not in done:
                analysis = get(client, f"series/{one}/analysis")
                if analysis["points"] < commits:
                    break
                done[one] = analysis
        if time.monotonic() > until_s:
            raise TimeoutError(f"{len(done)} of {len(series)} series are judged")
        time.sleep(0.2)
    return done


def told(analyses: dict[int, Any], commits: int) -> dict[str, int]:
    """Count the planted steps, those of them that were found, and changes that nobody planted."""
    planted = {number: step_of(number, commits) for number in analyses if number % EVERY == 0}
    found, others = set(), 0
    for number, analysis in analyses.items():
        for change in analysis["changes"]:
            at = int(change["first_bad"], 16)
            if number in planted and abs(at - planted[number]) <= NEAR:
                found.add(number)
            else:
                others += 1
    return {"planted": len(planted), "found": len(found), "not_planted": others}


def get(client: httpx2.Client, path: str) -> Any:
    """Read a document of the service."""
    return client.get(path).raise_for_status().json()


if __name__ == "__main__":
    main()
