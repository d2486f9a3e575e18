"""Times each phase of a suite's processes on one device.

``PYTHONPATH=. python -m trials.process_seconds FILE nightly --device cuda:0 --every 4 --limit 400``
measures every fourth case of the suite as a worker does, with two processes each, and writes a line
for each process into FILE. ``--table`` reads FILE.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any
from uuid import uuid4

from benchmarks.catalog.suites import suite
from benchmarks.contracts import JobSpec, Progress, Result
from cli.local.measure import set_up
from worker.runner import Runner


class Timeline:
    """Notes when a child entered each phase; nothing ends it."""

    def __init__(self) -> None:
        self._phases: list[tuple[float, str]] = [(time.monotonic(), "start")]

    def cause(self) -> None:
        return None

    def left_s(self) -> float:
        return float("inf")

    def tell(self, progress: Progress) -> None:
        if progress.phase != self._phases[-1][1]:
            self._phases.append((time.monotonic(), progress.phase))

    def hear(self, text: bytes) -> None:
        pass

    def keep(self, trace: bytes) -> None:
        pass

    def seconds(self) -> dict[str, float]:
        """Seconds of each phase up to now, in their order."""
        spent: dict[str, float] = defaultdict(float)
        ends = [at for at, _ in self._phases[1:]] + [time.monotonic()]
        for (at, phase), end in zip(self._phases, ends, strict=True):
            spent[phase] += end - at
        return {phase: round(s, 2) for phase, s in spent.items()}


def main() -> None:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("suite", nargs="?", default="nightly")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--table", action="store_true", help="print what the file has")
    options = parser.parse_args()
    if not options.table:
        with options.file.open("a", encoding="utf-8") as out:
            for row in measured(options):
                print(json.dumps(row), file=out, flush=True)
    print(table([json.loads(line) for line in options.file.read_text().splitlines()]))


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what each process took that began in time."""
    chosen, until_s = suite(options.suite), time.monotonic() + options.limit
    for case in chosen.cases[options.first :: options.every]:
        group = uuid4().hex
        with set_up(case.workload, options.device) as local:
            runner: Runner = local._runner
            for number in range(1, options.processes + 1):
                if time.monotonic() > until_s:
                    return
                protocol = chosen.protocol.of_replicate(number)
                spec = JobSpec(case=case, revision="here", protocol=protocol, replicate=number)
                timeline = Timeline()
                result = runner.run(spec, timeline, group, local._local)
                yield _row(result, number, timeline.seconds())


def _row(result: Result, number: int, spent: dict[str, float]) -> dict[str, Any]:
    """The seconds of a process: by phase, of its start's parts and of its windows."""
    timed = result.replicates[0] if result.replicates else None
    passes = {"full": timed.full, "synth": timed.synth} if timed else {}
    return {
        "case": result.case.key,
        "number": number,
        "status": result.status.value,
        "reason": result.reason,
        "gpu": result.environment.facts.get("hw.gpu.name"),
        "took_s": round(sum(spent.values()), 2),
        "phases_s": spent,
        "startup_s": {name: round(s, 2) for name, s in result.startup.items()},
        "windows": {
            name: {
                "s": round(one.wall_s, 2),
                "steps": one.steps,
                "rate": one.rate,
                "half_width": one.half_width,
                "step_s": [round(s, 6) for s in one.step_trace.values()],
            }
            for name, one in passes.items()
        },
        "flags": list(result.flags) + (list(timed.flags) if timed else []),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Mean seconds of each phase, of first and of later processes."""
    lines = []
    for name, of in (
        ("first", [row for row in rows if row["number"] == 1]),
        ("later", [row for row in rows if row["number"] > 1]),
    ):
        if of:
            phases = dict.fromkeys(phase for row in of for phase in row["phases_s"])
            told = [
                f"{phase} {fmean(row['phases_s'].get(phase, 0.0) for row in of):.1f}"
                for phase in phases
            ]
            took = fmean(row["took_s"] for row in of)
            lines.append(f"{name}: {len(of)} processes, {took:.1f} s each: {', '.join(told)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
