"""Measures equal code in fresh processes under several protocols in turn, on one device.

``PYTHONPATH=.:tests python -m trials.agreement.protocols NAME SECONDS FILE`` writes a row for each
process of the case ``NAME`` of `record.CASES`; ``--table FILE`` sums up the rows of each
device, and cuts the windows of the longest protocol to shorter ones.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.catalog.precision_tiers import Tier, timed
from benchmarks.contracts import Protocol, Result, Status
from trials.agreement.record import CASES, Case, begun, measured, row
from worker.device.nvml import NvmlGauge

PROTOCOLS: Mapping[str, Protocol] = {
    "long": Protocol(),
    "standard": timed(Tier.STANDARD),
    "short": Protocol(
        settle_max_s=0.0,
        window_min_s=3.0,
        window_min_steps=20,
        window_min_blocks=6,
        window_max_s=10.0,
        precision=0.01,
    ),
}
"""*long* is what a night took until 2026-11-26."""
CUTS_S = (1.0, 2.0, 3.0, 5.0, 8.0)
Row = Mapping[str, Any]


def record(name: str, limit_s: float, file: Path) -> None:
    """Measure rounds of all protocols until ``limit_s`` would be passed by the next process."""
    from_s = time.monotonic()
    subject = CASES[name]
    words = tuple(subject.words.split())
    first = measured(begun(Case(words, timed(Tier.QUICK), subject.kind), "A", 0))  # warms up
    gpu = str(first.environment.facts.get("hw.gpu.uuid", ""))
    gauge = NvmlGauge(gpu) if gpu else None
    longest_s: dict[str, float] = {}
    for number, protocol in enumerate(cycle(PROTOCOLS)):
        began_s = time.monotonic()
        if began_s - from_s + longest_s.get(protocol, 0.0) > limit_s:
            return
        case = Case(words, PROTOCOLS[protocol], subject.kind)
        result = measured(begun(case, "A", number), gauge)
        took_s = time.monotonic() - began_s
        longest_s[protocol] = max(took_s, longest_s.get(protocol, 0.0))
        more = {"name": name, "protocol": protocol, "number": number, "took_s": took_s}
        with file.open("a") as out:
            out.write(json.dumps(row(result, **more, **_course(result))) + "\n")


def _course(result: Result) -> dict[str, Any]:
    """Seconds of each part of the process and of each step of FULL."""
    if result.status is not Status.OK:
        return {}
    (replicate,) = result.replicates
    full = replicate.full
    return {
        "startup": result.startup,
        "window_s": {"full": full.wall_s, "synth": replicate.synth.wall_s},
        "trace_s": [round(value, 6) for value in full.step_trace.values()],
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows of a table in Markdown: each protocol, then the longest one's windows cut."""
    yield "| run | case | protocol | processes | s a process | FULL, s | rate | spread | half |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    grouped: dict[tuple[int, str, str], list[Row]] = defaultdict(list)
    for one in rows:
        if one["status"] == "ok":
            grouped[one.get("run", 1), one["name"], one["protocol"]].append(one)
    for (run, name, protocol), group in sorted(grouped.items()):
        base = fmean(one["full"] for one in grouped[run, name, "long"])
        rates = [one["full"] for one in group]
        widths = fmean(one["full_half_width"] / one["full"] for one in group)
        took_s = fmean(one["took_s"] for one in group)
        cells = f"{took_s:.0f}", f"{_window_s(group):.1f}", f"{widths:.2%}"
        yield _line((run, name, protocol), rates, base, *cells)
        if protocol == "long":
            base = fmean(1 / _mean_step(one, math.inf) for one in group)
            for cut_s in CUTS_S:
                rates = [1 / _mean_step(one, cut_s) for one in group]
                yield _line((run, name, "long, cut"), rates, base, "", f"{cut_s:.0f}", "")


def _line(labels: tuple[int, str, str], rates: Sequence[float], base: float, *cells: str) -> str:
    took_s, window_s, width = cells
    mean = fmean(rates)
    spread = f"{stdev(rates) / mean:.2%}" if len(rates) > 1 else ""
    told = (*map(str, labels), str(len(rates)), took_s, window_s, f"{mean / base - 1:+.2%}")
    return f"| {' | '.join((*told, spread, width))} |"


def _window_s(group: Sequence[Row]) -> float:
    return fmean(one["window_s"]["full"] for one in group)


def _mean_step(one: Row, cut_s: float) -> float:
    """The mean step in the first ``cut_s`` seconds of FULL."""
    kept: list[float] = []
    elapsed_s = 0.0
    for value in one["trace_s"]:
        if elapsed_s >= cut_s:
            break
        kept.append(value)
        elapsed_s += value
    return fmean(kept)


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        lines = Path(sys.argv[2]).read_text().splitlines()
        print("\n".join(table([json.loads(line) for line in lines])))
    else:
        _name, _limit_s, _file = sys.argv[1:]
        record(_name, float(_limit_s), Path(_file))
