"""``python -m trials.chaos BAR``: shows a bar of benchmarks/results/reliability.

Each run appends its raw row there.

Bars: storm, zombies, power, takeover, mutants, killed, bisected, gangs; ``all`` shows each of them.
A storm's seed is printed; ``--seed`` brings its plan of faults again. Exit code 1 if anything went
wrong that must not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from builders.postgres_server import DURABLE, running

from service.database.migrate import upgrade
from trials.chaos import disk, power, zombies
from trials.chaos.storm import Storm, run

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "reliability"
LONGEST_S = {"storm": 180.0, "takeover": 70.0}
FULL = {
    "workers": 40,
    "full": 2,
    "jobs": 4_000,
    "worker_kills": 110,
    "freezes": 200,
    "service_kills": 13,
    "service_freezes": 2,
    "clock_jumps": 2,
    "database_restarts": 3,
    "lost": 200,
    "lease_s": 3.0,
    "job_s": (0.1, 1.0),
    "limit_s": 600.0,
}

Place = tuple[str, Path, Callable[[], None] | None]
"""A fresh database's address, a folder, and how to crash and start the database."""


@contextmanager
def place(database: str) -> Iterator[Place]:
    """A migrated, empty database of one kind."""
    with tempfile.TemporaryDirectory(prefix="tl-chaos-") as name:
        folder = Path(name)
        if database == "sqlite":
            url = f"sqlite:///{folder}/throughline.sqlite3"
            upgrade(url)
            yield url, folder, None
            return
        with running(*DURABLE) as server:
            server.run("CREATE DATABASE chaos")
            upgrade(server.url("chaos"))

            def restart() -> None:
                server.crash()
                server.start()

            yield server.url("chaos"), folder, restart


def storm(database: str, arguments: argparse.Namespace) -> dict[str, Any]:
    options = FULL | ({"jobs": arguments.jobs} if arguments.jobs else {})
    if arguments.jobs:  # a share of everything else too
        share = arguments.jobs / FULL["jobs"]  # type: ignore[operator]
        counted = ("worker_kills", "freezes", "service_kills", "clock_jumps", "database_restarts")
        for name in (*counted, "lost"):
            options[name] = int(FULL[name] * share)  # type: ignore[operator]
    replicas = 1 if database == "sqlite" else 2
    with place(database) as (url, folder, restart):
        return run(Storm(arguments.seed, replicas=replicas, **options), url, folder, restart).row()  # type: ignore[arg-type]


def awakenings(database: str, arguments: argparse.Namespace) -> dict[str, Any]:
    with place(database) as (url, folder, _):
        return vars(zombies.awaken(url, folder, rounds=20, zombies=25))


def cuts(database: str, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tl-chaos-") as name:
        folder = Path(name)
        before, log = power.record(folder, 120)
        outcome = power.cut(before, log, 1_500, arguments.seed, folder)
        (folder / "worker").mkdir()
        lost = power.cut_spool(folder / "worker", disk.built(folder), 60, arguments.seed)
        outcome.violations += lost
        return vars(outcome)


def takeover(database: str, arguments: argparse.Namespace) -> dict[str, Any]:
    with place(database) as (url, folder, _):
        took_s = zombies.take_over(url, folder)
    return {"database": database, "took_s": took_s, "violations": []}


def mutants(database: str, arguments: argparse.Namespace) -> dict[str, Any]:
    tests = [str(ROOT / "tests" / "chaos" / name) for name in ("test_mutants.py",)]
    tests.append(str(ROOT / "tests" / "chaos" / "test_power_cuts.py"))
    code = pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *tests])
    from trials.chaos.mutants import DISK_MUTANTS, MUTANTS

    names = [*MUTANTS, *DISK_MUTANTS]
    missed = [] if code == 0 else ["a mutant was not caught, or the trial failed without one"]
    return {"mutants": names, "caught": len(names) if not missed else None, "violations": missed}


def kills(containment: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """500 with a scripted child, whose moments vary most, and 40 with a real benchmark."""
    seed = str(arguments.seed)
    real = ["--child", "", "--kills", "40", "--within-s", "12"]
    rows = []
    for more in ([], real):
        command = [sys.executable, "-m", "trials.chaos.killed", containment, "--seed", seed, *more]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(done.stdout))
    violations = [violation for row in rows for violation in row.pop("violations")]
    return {"containment": containment, "trials": rows, "violations": violations}


def bisections(database: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """100 kills of worker, builder and service, after a bisection without any."""
    command = [sys.executable, "-m", "trials.chaos.bisected", "--seed", str(arguments.seed)]
    done = subprocess.run([*command, "--undisturbed"], stdout=subprocess.PIPE, check=True)
    return {"database": database, **json.loads(done.stdout)}


def gangs(database: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """200 strikes at ranks, lead, worker, service and network of gangs."""
    command = [sys.executable, "-m", "trials.chaos.gangs", "--seed", str(arguments.seed)]
    command += ["--within-s", str(arguments.within_s)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return {"database": database, **json.loads(done.stdout)}


BARS: dict[str, tuple[Callable[[str, argparse.Namespace], dict[str, Any]], tuple[str, ...]]] = {
    "storm": (storm, ("sqlite", "postgresql")),
    "zombies": (awakenings, ("sqlite", "postgresql")),
    "power": (cuts, ("sqlite",)),
    "takeover": (takeover, ("sqlite", "postgresql")),
    "mutants": (mutants, ("sqlite",)),
    "killed": (kills, ("pid_namespace", "process_group")),
    "bisected": (bisections, ("sqlite",)),
    "gangs": (gangs, ("sqlite",)),
}


def show(bar: str, database: str, arguments: argparse.Namespace) -> bool:
    """Show one bar, print and append its row; say whether it holds."""
    say(f"{bar} on {database}, seed {arguments.seed}")
    began_s = time.monotonic()
    row = BARS[bar][0](database, arguments)
    row |= {
        "bar": bar,
        "seed": arguments.seed,
        "took_whole_s": round(time.monotonic() - began_s, 1),
    }
    longest_s = LONGEST_S.get(bar)
    took_s = row.get("took_s", row.get("wall_s"))
    if longest_s is not None and took_s is not None and took_s > longest_s:
        row["too_slow"] = f"{took_s:.0f} s, and the bar is {longest_s:.0f} s"
    row["violation_count"] = len(row["violations"])
    row["violations"] = row["violations"][:20]
    row |= {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    line = json.dumps(row, sort_keys=True, default=str)
    say(line)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        with (arguments.out / f"{bar}.jsonl").open("a") as file:
            file.write(line + "\n")
    return not row["violations"] and "too_slow" not in row


def machine() -> dict[str, Any]:
    """Where it was measured, and how busy that was."""
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "load": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.system(),
    }


def _processor() -> str:
    """The kind of processor, as the kernel calls it; empty where it does not say."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Show what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m trials.chaos", description=__doc__)
    parser.add_argument("bar", choices=[*BARS, "all"])
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, help="a smaller storm; the row says so")
    parser.add_argument("--within-s", type=float, default=math.inf, help="gangs: no later strike")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the raw rows")
    parser.add_argument("--no-out", dest="out", action="store_const", const=None)
    arguments = parser.parse_args()
    good = True
    for bar in BARS if arguments.bar == "all" else [arguments.bar]:
        for database in BARS[bar][1]:
            if arguments.database in (None, database):
                good &= show(bar, database, arguments)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
