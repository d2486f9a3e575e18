"""``python -m load claims|traffic|latency|all``: how fast the service is when much is asked of it.

``claims`` times a claim while 200,000 jobs are queued. ``traffic`` sends heartbeats of 1,000
workers and results to a real service process at the times when they are due, however long the
answers take. ``latency`` times single requests on a connection that is kept. Each prints a raw
row and appends it to benchmarks/results/reliability. ``all`` does all three, with the traffic of
`PLANS`.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from chaos.__main__ import RESULTS, machine
from load import claims, latency, traffic
from load.traffic import Plan, Shape

SECONDS, NIGHT = 15.0, 20
"""Of each plan; and the workers of a service with SQLite."""
PLANS = (
    *(("sqlite", Plan(rate, SECONDS, Shape.STEPS, workers=NIGHT)) for rate in (50, 100, 200)),
    ("sqlite", Plan(10, SECONDS, Shape.METRICS, workers=NIGHT)),
    ("postgresql", Plan(20, SECONDS, Shape.STEPS)),
    *(("postgresql", Plan(rate, SECONDS, Shape.STEPS, replicas=2)) for rate in (50, 100, 500)),
    ("postgresql", Plan(10, SECONDS, Shape.METRICS, workers=NIGHT)),
)


def main() -> int:
    """Measure on each database that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m load", description=__doc__)
    parser.add_argument("what", choices=["claims", "traffic", "latency", "all"])
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--claims", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--sets", type=int, nargs="+", default=[claims.KINDS], help="label sets")
    parser.add_argument("--results-per-s", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--shape", choices=list(Shape), default=Shape.STEPS)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--dry", action="store_true", help="append no row")
    asked = parser.parse_args()
    kinds = [asked.database] if asked.database else ["sqlite", "postgresql"]
    if asked.what in ("claims", "all"):
        for kind in kinds:
            for sets in asked.sets:
                row = claims.measure(kind, asked.jobs, asked.claims, sets)
                keep(row, "claims", dry=asked.dry)
    if asked.what in ("latency", "all"):
        for kind in kinds:
            keep(latency.measure(kind, asked.requests), "latency", dry=asked.dry)
    for kind, plan in PLANS if asked.what == "all" else _asked(asked, kinds):
        if kind in kinds:
            keep(traffic.measure(kind, plan), "traffic", dry=asked.dry)
    return 0


def _asked(asked: argparse.Namespace, kinds: list[str]) -> list[tuple[str, Plan]]:
    if asked.what != "traffic":
        return []
    shape = Shape(asked.shape)
    plan = Plan(asked.results_per_s, asked.seconds, shape, asked.replicas, asked.workers)
    return [(kind, plan) for kind in kinds]


def keep(row: dict[str, Any], name: str, *, dry: bool) -> None:
    """Print a row with where and when it was measured, and append it."""
    row |= {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    line = json.dumps(row, sort_keys=True) + "\n"
    sys.stdout.write(line)
    if not dry:
        RESULTS.mkdir(parents=True, exist_ok=True)
        with (RESULTS / f"{name}.jsonl").open("a") as file:
            file.write(line)


if __name__ == "__main__":
    sys.exit(main())
