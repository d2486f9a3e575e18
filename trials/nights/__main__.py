"""Simulated nights through the whole service, over its API: what it tells, and when.

``make bench-nights`` writes the rows and the table. ``--seed 3 --nights 25 --cases 12`` simulates
one small history and prints its inbox.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from builders.marked import replaced
from pydantic import TypeAdapter

from trials.nights.events import KINDS
from trials.nights.history import Plan, simulate
from trials.nights.score import History, inbox, table
from trials.nights.service import Nights

RESULTS = Path("benchmarks/results/nights")
PAGE = RESULTS / "README.md"
_ROW = TypeAdapter(History)


def main() -> None:
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    if arguments.seed is not None:
        _one(_plan(arguments, arguments.seed))
        return
    seeds = range(arguments.first, arguments.first + arguments.histories)
    plans = [_plan(arguments, seed) for seed in seeds]
    plans += [replace(plan, quiet=True) for plan in plans[: arguments.quiet]]
    rows: list[History] = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for row in pool.map(simulate, plans):
            rows.append(row)
            _write(rows, arguments.rows)  # each time: a history takes long


def _write(rows: Sequence[History], name: str) -> None:
    text = "".join(json.dumps(_ROW.dump_python(row, mode="json")) + "\n" for row in rows)
    (RESULTS / f"{name}.jsonl").write_text(text)
    lines = "\n".join(table(rows))
    PAGE.write_text(replaced(PAGE.read_text(), name, lines))
    print(lines, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="seed of the first history")
    parser.add_argument("--rows", default="simulated", help="name of the file, and of its table")
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--cases", type=int, default=43, help="of the suite nightly")
    parser.add_argument("--every", type=int, default=5, help="nights between two events")
    parser.add_argument("--kinds", nargs="*", default=[], choices=list(KINDS), help="in order")
    parser.add_argument("--quiet", type=int, default=2, help="more, in which nothing happens")
    parser.add_argument("--seed", type=int, help="simulate this history alone, and print its inbox")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def _plan(arguments: argparse.Namespace, seed: int) -> Plan:
    return Plan(seed, arguments.nights, arguments.cases, arguments.every, tuple(arguments.kinds))


def _one(plan: Plan) -> None:
    history = simulate(plan, _progress)
    print("\n".join([*inbox(history), "", *table([history])]))


def _progress(night: int, nights: Nights) -> None:
    print(f"night {night}: {nights.jobs} jobs, {nights.analysis_s:.0f} s of analysis", flush=True)


if __name__ == "__main__":
    main()
