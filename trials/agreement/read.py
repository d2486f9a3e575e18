"""Judges recorded processes as the product judges results: equal ones, and ones with more to do.

``PYTHONPATH=.:tests python -m trials.agreement.read FILE ...`` prints a table. Of each device and
case:

* A/A, of standard-tier processes: every three of one side in a row are a result; each two of them
  that share no process are compared as `throughline compare` does.
* A/B, of gate-tier processes: the pairs are given to the gate one by one, as it would have measured
  them, until it has an answer; every five pairs in a row are a comparison of their own; and so is
  every choice of five out of all, which shows how much the answer owes to luck, though choices
  share pairs. In time, and in clock cycles: under a power cap the clock goes up where the step asks
  for less power. The comparisons in which the product called the host late in no process are told
  once more: only there is the device the limit, so that one percent more for it is one percent.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from benchmarks.catalog.precision_tiers import Tier
from benchmarks.contracts import Case, Direction, Sample
from service.analysis.gate.metrics import Levels
from service.analysis.summary import summarise
from service.history.compare import compare
from service.schemas.gate import CaseVerdict as GateVerdict
from service.schemas.series import ChangeVerdict, Series, SeriesPoint
from trials.gate.gates import POLICY, settled

STANDARD, GATE = 3, 5
LATE = frozenset({"full.tail", "synth.tail"})
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_CASE = Case(workload="unet", preset="full")
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the gate says of one case on one device in one unit."""

    more: float = 0.0
    """What one per cent more work cost: the mean over pairs, relative."""
    answer: str = ""
    used: int = 0
    """Pairs that the answer took."""
    windows: int = 0
    """Comparisons of five pairs in a row."""
    caught: int = 0
    choices: int = 0
    """Comparisons of any five of the pairs."""
    chosen: int = 0
    """Those of them that find it."""

    def __str__(self) -> str:
        return f"{self.more:+.2%}, {self.answer} after {self.used}" if self.answer else ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What came of the processes of one case on one device."""

    name: str
    tier: str
    device: str
    processes: int
    late: int
    """Those of them in which the product found the host late."""
    deviation: float
    """Of the equal processes, relative."""
    equal_pairs: int
    differing: int
    time: Comparison
    cycles: Comparison


Key = tuple[str, str, str]
"""Case, tier, device."""


def read(lines: Iterable[str]) -> dict[Key, list[dict[str, Any]]]:
    """The processes that were measured, by case, tier and device."""
    rows: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        row = json.loads(line)
        if row["status"] == "ok":
            rows[row["name"], row["tier"], row["gpu"]].append(row)
    return dict(rows)


def judge(key: Key, rows: Rows) -> Agreement:
    """What the product says of these processes."""
    sides = [[row["full"] for row in rows if row["side"] == side] for side in "AB"]
    standard = key[1] == Tier.STANDARD
    equal = [pair for values in sides for pair in equal_pairs(values)] if standard else []
    return Agreement(
        *key,
        processes=len(rows),
        late=sum(not LATE.isdisjoint(row.get("flags", ())) for row in rows),
        deviation=fmean(stdev(values) / fmean(values) for values in sides if len(values) > 1),
        equal_pairs=len(equal),
        differing=sum(differ(*pair) for pair in equal),
        time=Comparison() if standard else compared(list(_pairs(rows, _time))),
        cycles=Comparison() if standard else compared(list(_pairs(rows, _cycles))),
    )


def _time(row: Mapping[str, Any]) -> float:
    return float(row["step_s"])


def _cycles(row: Mapping[str, Any]) -> float:
    clock_hz = row.get("counted_hz") or row.get("sm_clock_hz", math.nan)
    return float(row["step_s"] * clock_hz)


def compared(pairs: Sequence[tuple[float, float]]) -> Comparison:
    """The gate's answers to pairs of what a step of A and of B took; none of what is not known."""
    if not pairs or not np.isfinite(pairs).all():
        return Comparison()
    answer, used = gated(pairs)
    windows = [pairs[at : at + GATE] for at in range(0, len(pairs) - GATE + 1, GATE)]
    choices = list(combinations(pairs, GATE))
    return Comparison(
        more=fmean(after / before - 1 for before, after in pairs),
        answer=answer.value,
        used=used,
        windows=len(windows),
        caught=_worse(windows),
        choices=len(choices),
        chosen=_worse(choices),
    )


def _worse(comparisons: Iterable[Sequence[tuple[float, float]]]) -> int:
    return sum(gated(pairs)[0] is GateVerdict.WORSE for pairs in comparisons)


def equal_pairs(values: Sequence[float]) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Standard-tier results of one side, two by two."""
    whole = len(values) // STANDARD * STANDARD
    results = [values[at : at + STANDARD] for at in range(0, whole, STANDARD)]
    return list(combinations(results, 2))


def differ(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `throughline compare` calls two results of one worker different."""
    points = tuple(_point(name, values) for name, values in (("a", one), ("b", other)))
    series = Series("s", _CASE, "throughput", "img/s", Direction.HIGHER, {}, points=points)
    return compare(series, "a", "b").verdict in (ChangeVerdict.FASTER, ChangeVerdict.SLOWER)


def _point(revision: str, values: Sequence[float]) -> SeriesPoint:
    sample = Sample(
        metric="throughput", unit="img/s", direction=Direction.HIGHER, values=tuple(values)
    )
    summary = summarise(sample)
    place = (revision, revision, _AT, _AT)
    interval = (summary.value, summary.low, summary.high, summary.interval, summary.replicates)
    return SeriesPoint(*place, *interval, "environment", "worker")


def _pairs(rows: Rows, took: Callable[[Mapping[str, Any]], float]) -> Iterator[tuple[float, float]]:
    for _, turns in groupby(rows, key=lambda row: int(row["pair"])):
        pair = {row["side"]: took(row) for row in turns}
        if len(pair) == len("AB"):
            yield pair["A"], pair["B"]


def gated(pairs: Sequence[tuple[float, float]]) -> tuple[GateVerdict, int]:
    """The gate's answer with its default policy, and how many pairs it took."""
    if len(pairs) < POLICY.min_pairs:
        return GateVerdict.UNCLEAR, len(pairs)
    steps = np.array(pairs)  # [pairs, side]
    finding = settled("case", steps[:, 0], steps[:, 1], Levels.of(POLICY, ["case"]))
    return finding.verdict, finding.pairs


HEAD = (
    "case",
    "tier",
    "device",
    "processes",
    "host late in",
    "differ by",
    "equal results told apart",
    "1 % more work cost, and the gate",
    "in clock cycles",
    "found in five pairs (of all choices)",
    "in clock cycles",
)


def table(agreements: Sequence[Agreement]) -> str:
    """A row for each case, tier and device, and their sums."""
    rows = [HEAD, ("---",) * len(HEAD), *(_cells(agreement) for agreement in agreements)]
    rows += [
        _sums("all", agreements),
        _sums(
            "all in which the host was never late",
            [agreement for agreement in agreements if not agreement.late],
        ),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _sums(name: str, agreements: Sequence[Agreement]) -> tuple[str, ...]:
    processes, late = sum(f.processes for f in agreements), sum(f.late for f in agreements)
    caught = _of([f.time for f in agreements]), _of([f.cycles for f in agreements])
    return (name, "", "", str(processes), str(late), "", _apart(agreements), "", "", *caught)


def _apart(agreements: Sequence[Agreement]) -> str:
    pairs = sum(agreement.equal_pairs for agreement in agreements)
    return f"{sum(agreement.differing for agreement in agreements)} of {pairs}" if pairs else ""


def _of(comparisons: Sequence[Comparison]) -> str:
    windows, choices = sum(f.windows for f in comparisons), sum(f.choices for f in comparisons)
    if not choices:
        return ""
    return (
        f"{sum(f.caught for f in comparisons)} of {windows} "
        f"({sum(f.chosen for f in comparisons):,} of {choices:,})"
    )


def _cells(one: Agreement) -> tuple[str, ...]:
    return (
        one.name,
        one.tier,
        one.device[:12],
        str(one.processes),
        str(one.late),
        f"{one.deviation:.2%}",
        _apart([one]),
        str(one.time),
        str(one.cycles),
        _of([one.time]),
        _of([one.cycles]),
    )


def main(files: Sequence[str]) -> None:
    """Print the table of what these files hold."""
    lines = [line for file in files for line in Path(file).read_text().splitlines()]
    sys.stdout.write(table([judge(key, rows) for key, rows in sorted(read(lines).items())]))


if __name__ == "__main__":
    main(sys.argv[1:])
