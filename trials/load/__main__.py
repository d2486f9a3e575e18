"""``python -m trials.load claims|traffic|latency|all|table``: how fast the service is under load.

``claims`` times a claim while 200,000 jobs are queued. ``traffic`` sends heartbeats, claims and
results to a real service process at the times when they are due, however long the answers take.
``latency`` times single requests on a connection that is kept. Each prints a raw row and appends
it to benchmarks/results/reliability. ``all`` does all three, with the traffic of `PLANS`.
``table`` prints the rows as the README.md beside them has them, and with ``--write`` puts them
there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from trials.chaos.__main__ import RESULTS, ROOT, machine
from trials.load import claims, latency, table, traffic
from trials.load.traffic import Plan, Shape

SECONDS, NIGHT = 60.0, 20
"""Of each plan; and the workers of a service with SQLite."""
BAR = 200
"""Results a second that SQLite is to take: three runs, as one may meet a bad minute."""
PLANS = (
    *(("sqlite", Plan(rate, SECONDS, Shape.REAL, workers=NIGHT)) for rate in (50, 100)),
    *(("sqlite", Plan(BAR, SECONDS, Shape.REAL, workers=NIGHT)) for _ in range(3)),
    ("sqlite", Plan(50, SECONDS, Shape.REAL, workers=NIGHT, claims_per_s=50)),
    ("sqlite", Plan(10, SECONDS, Shape.METRICS, workers=NIGHT)),
    ("postgresql", Plan(20, SECONDS, Shape.REAL)),
    *(("postgresql", Plan(rate, SECONDS, Shape.REAL, replicas=2)) for rate in (50, 100, 150, 500)),
    ("postgresql", Plan(50, SECONDS, Shape.REAL, replicas=2, claims_per_s=50)),
    ("postgresql", Plan(10, SECONDS, Shape.METRICS, workers=NIGHT)),
)
DOCUMENT = RESULTS / "README.md"
_NOT_CODE = (":!benchmarks/results", ":!docs")


def main() -> int:
    """Measure on each database that is asked for, or show what was measured."""
    parser = argparse.ArgumentParser(prog="python -m trials.load", description=__doc__)
    parser.add_argument("what", choices=["claims", "traffic", "latency", "all", "table"])
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--claims", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--sets", type=int, nargs="+", default=[claims.KINDS], help="label sets")
    parser.add_argument("--results-per-s", type=float, default=200.0)
    parser.add_argument("--claims-per-s", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--shape", choices=list(Shape), default=Shape.REAL)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--dry", action="store_true", help="append no row")
    parser.add_argument("--write", action="store_true", help="put the table into the document")
    arguments = parser.parse_args()
    if arguments.what == "table":
        return show(write=arguments.write)
    kinds = [arguments.database] if arguments.database else ["sqlite", "postgresql"]
    if arguments.what in ("claims", "all"):
        for kind in kinds:
            for sets in arguments.sets:
                row = claims.measure(kind, arguments.jobs, arguments.claims, sets)
                keep(row, "claims", dry=arguments.dry)
    if arguments.what in ("latency", "all"):
        for kind in kinds:
            keep(latency.measure(kind, arguments.requests), "latency", dry=arguments.dry)
    for kind, plan in PLANS if arguments.what == "all" else _chosen_plans(arguments, kinds):
        if kind in kinds:
            keep(traffic.measure(kind, plan), "traffic", dry=arguments.dry)
    return 0


def _chosen_plans(arguments: argparse.Namespace, kinds: list[str]) -> list[tuple[str, Plan]]:
    if arguments.what != "traffic":
        return []
    plan = Plan(
        arguments.results_per_s,
        arguments.seconds,
        Shape(arguments.shape),
        arguments.replicas,
        arguments.workers,
        arguments.claims_per_s,
    )
    return [(kind, plan) for kind in kinds]


def show(*, write: bool) -> int:
    """Print the table of the rows, or put it into the document."""
    made = table.whole(RESULTS)
    if write:
        DOCUMENT.write_text(table.replaced(DOCUMENT.read_text(), made))
    else:
        sys.stdout.write(made + "\n")
    return 0


def keep(row: dict[str, Any], name: str, *, dry: bool) -> None:
    """Print a row with its code, where and when it was measured, and append it."""
    row |= {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    row |= {"commit": commit()}
    line = json.dumps(row, sort_keys=True) + "\n"
    sys.stdout.write(line)
    sys.stdout.flush()
    if not dry:
        RESULTS.mkdir(parents=True, exist_ok=True)
        with (RESULTS / f"{name}.jsonl").open("a") as file:
            file.write(line)


def commit() -> str:
    """The code that was measured: a commit, with a plus if it was changed since."""
    short = _git("rev-parse", "--short", "HEAD")
    if not short:
        return "unknown"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *_NOT_CODE)
    return short + ("+" if changed else "")


def _git(*arguments: str) -> str:
    """What git says; nothing where this is no checkout."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
