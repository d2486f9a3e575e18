"""Judges recorded processes as the product judges results: equal ones, and ones with more to do.

``PYTHONPATH=.:tests python -m agreement.read FILE ...`` prints a table. Of each device and case:

* A/A: every three processes of one side in a row are a standard-tier result; each two of them that
  share no process are compared as `throughline compare` does.
* A/B: the pairs are given to the gate one by one, as it would have measured them, until it has an
  answer; and every five pairs in a row are a gate-tier comparison of their own.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from gate_bench.gates import POLICY, settled

from benchmarks.contracts import Case, Direction, Sample
from service.changes import Verdict, compare
from service.gate import Levels
from service.gate import Verdict as GateVerdict
from service.results import Series, SeriesPoint
from service.summary import summarise

STANDARD, GATE = 3, 5
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_CASE = Case(workload="unet", preset="full")
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What came of the processes of one case on one device."""

    name: str
    device: str
    processes: int
    deviation: float
    """Of the equal processes, relative."""
    more: float
    """What one per cent more work made of the rate: the mean over pairs, relative."""
    equal_pairs: int
    told_apart: int
    gate: str
    gate_pairs: int
    windows: int
    """Gate-tier comparisons of five pairs in a row."""
    found: int


def read(lines: Iterable[str]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The processes that were measured, by case and device."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        row = json.loads(line)
        if row["status"] == "ok":
            found[row["name"], row["gpu"]].append(row)
    return dict(found)


def judge(name: str, device: str, rows: Rows) -> Agreement:
    """What the product says of these processes."""
    sides = {side: [row["full"] for row in rows if row["side"] == side] for side in "AB"}
    pairs = list(_pairs(rows))
    equal = [pair for values in sides.values() for pair in equal_pairs(values)]
    answer, used = gated(pairs)
    windows = [pairs[at : at + GATE] for at in range(0, len(pairs) - GATE + 1, GATE)]
    return Agreement(
        name=name,
        device=device,
        processes=len(rows),
        deviation=fmean(stdev(values) / fmean(values) for values in sides.values()),
        more=fmean(after / before - 1 for before, after in pairs),
        equal_pairs=len(equal),
        told_apart=sum(differ(*pair) for pair in equal),
        gate=answer.value,
        gate_pairs=used,
        windows=len(windows),
        found=sum(gated(window)[0] is GateVerdict.WORSE for window in windows),
    )


def equal_pairs(values: Sequence[float]) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Standard-tier results of one side, two by two."""
    whole = len(values) // STANDARD * STANDARD
    results = [values[at : at + STANDARD] for at in range(0, whole, STANDARD)]
    return list(combinations(results, 2))


def differ(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `throughline compare` calls two results of one worker different."""
    points = tuple(_point(name, values) for name, values in (("a", one), ("b", other)))
    series = Series("s", _CASE, "throughput", "img/s", Direction.HIGHER, {}, points)
    return compare(series, "a", "b").verdict in (Verdict.FASTER, Verdict.SLOWER)


def _point(revision: str, values: Sequence[float]) -> SeriesPoint:
    sample = Sample(
        metric="throughput", unit="img/s", direction=Direction.HIGHER, values=tuple(values)
    )
    told = summarise(sample)
    place = (revision, revision, _AT, _AT)
    interval = (told.value, told.low, told.high, told.interval, told.replicates)
    return SeriesPoint(*place, *interval, "environment", "worker")


def _pairs(rows: Rows) -> Iterator[tuple[float, float]]:
    by_number: dict[int, dict[str, float]] = defaultdict(dict)
    for row in rows:
        by_number[row["pair"]][row["side"]] = row["full"]
    for pair in by_number.values():
        if len(pair) == len("AB"):
            yield pair["A"], pair["B"]


def gated(pairs: Sequence[tuple[float, float]]) -> tuple[GateVerdict, int]:
    """The gate's answer with its default policy, and how many pairs it took."""
    if len(pairs) < POLICY.min_pairs:
        return GateVerdict.UNCLEAR, len(pairs)
    steps = 1 / np.array(pairs)  # [pairs, side], in arbitrary units
    found = settled("case", steps[:, 0], steps[:, 1], Levels.of(POLICY, ["case"]))
    return found.verdict, found.pairs


def table(found: Sequence[Agreement]) -> str:
    """A row for each case and device, and their sums."""
    head = (
        "case",
        "device",
        "processes",
        "differ by",
        "equal results told apart",
        "1 % more work cost",
        "gate",
        "found in five pairs",
    )
    rows = [head, ("---",) * len(head), *(_cells(each) for each in found)]
    apart = f"{sum(f.told_apart for f in found)} of {sum(f.equal_pairs for f in found)}"
    caught = f"{sum(f.found for f in found)} of {sum(f.windows for f in found)}"
    rows.append(("all", "", str(sum(f.processes for f in found)), "", apart, "", "", caught))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _cells(one: Agreement) -> tuple[str, ...]:
    return (
        one.name,
        one.device[:12],
        str(one.processes),
        f"{one.deviation:.2%}",
        f"{one.told_apart} of {one.equal_pairs}",
        f"{one.more:+.2%}",
        f"{one.gate} after {one.gate_pairs}",
        f"{one.found} of {one.windows}",
    )


def main(files: Sequence[str]) -> None:
    """Print the table of what these files hold."""
    lines = [line for file in files for line in Path(file).read_text().splitlines()]
    sys.stdout.write(table([judge(*key, rows) for key, rows in sorted(read(lines).items())]))


if __name__ == "__main__":
    main(sys.argv[1:])
