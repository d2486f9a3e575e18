"""Bisections over recorded pairs of equal code, with one percent planted at a random commit.

``PYTHONPATH=.:tests python -m trials.bisection`` replays 1,000 bisections of 24 commits with a
culprit and 1,000 without for each kind of replay. It writes a line for each bisection to
``benchmarks/results/bisection/replays.jsonl`` and the table into its ``README.md``. Pairs are drawn
from the recorded ones of one case and machine, with replacement. A culprit's pair is the same pair
with each step of the contender one percent longer, and goes through the service's own functions.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
from builders.marked import replaced

from service.analysis.bisection import Judgement, Probe, Search, judged
from service.analysis.gate import Pair
from service.analysis.gate.metrics import worse_by
from service.analysis.gate.noise import PairNoise
from service.schemas.bisections import BisectionOutcome
from trials.bisection import table
from trials.gate import turned

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SOURCES = {name: RESULTS / name / "duets.jsonl" for name in ("h100", "h200")}
ROWS = RESULTS / "bisection" / "replays.jsonl"
PAGE = ROWS.parent / "README.md"
SEED, BISECTIONS, COMMITS, PLANTED = 11, 1_000, 24, 0.01
FEWEST = 8
"""Recorded pairs of a case and machine below which it is left out."""
FINDING = 0.15
"""Standard deviation of the logarithm of what a finding tells, by the true effect."""
HISTORY = 10.0
"""Degrees of freedom with which earlier gates told the noise."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How pairs are drawn, and what a bisection knows beforehand."""

    name: str
    known: bool = True
    """Whether noise and effect are known, from gates and from a finding."""
    odd: float = 0.0
    """Share of processes that are 7 % slow."""
    drift: float = 0.0
    """Standard deviation of the machine's step from one process to the next."""
    in_order: bool = False
    """Pairs follow each other as they were recorded."""
    clock: bool = True
    """Whether the clocks were recorded."""


KINDS = (
    Kind("a finding, noise known from gates"),
    Kind("two revisions, nothing known", known=False),
    Kind("pairs in the order of recording", in_order=True),
    Kind("3 % of processes 7 % slow", odd=0.03),
    Kind("drift of 0.1 % a process", drift=0.001),
    Kind("without the clocks", clock=False),
)


@dataclass(frozen=True, slots=True)
class Pool:
    """The recorded pairs of one case on one kind of machine, as they were and with the culprit."""

    name: str
    equal: Sequence[Pair]
    slower: Sequence[Pair]

    @property
    def noise(self) -> float:
        """Standard deviation between its pairs."""
        return stdev(worse_by(self.equal, "throughput"))


class Machine:
    """Draws the pair of each probe, and adds what a kind of replay adds."""

    def __init__(self, kind: Kind, pool: Pool, random: np.random.Generator) -> None:
        self._kind, self._pool, self._random = kind, pool, random
        self._start = int(random.integers(len(pool.equal)))
        self._pairs: list[Pair] = []
        self._added: list[float] = []

    def measure(self, *, slower: bool) -> list[float]:
        """Draw one more pair, and give the differences of all so far."""
        count = len(self._pool.equal)
        place = self._start + len(self._pairs) if self._kind.in_order else self._draw(count)
        pairs = self._pool.slower if slower else self._pool.equal
        self._pairs.append(pairs[place % count])
        self._added.append(self._odd() - self._odd() + self._random.normal(0.0, self._kind.drift))
        found = worse_by(self._pairs, "throughput")
        return [one + more for one, more in zip(found, self._added, strict=True)]

    def _draw(self, count: int) -> int:
        return int(self._random.integers(count))

    def _odd(self) -> float:
        return 0.07 if self._random.random() < self._kind.odd else 0.0


def main() -> None:
    """Replay, and write rows and table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bisections", type=int, default=BISECTIONS, help="fewer writes nothing")
    parser.add_argument("--seed", type=int, default=SEED, help="another one writes nothing")
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    rows = [row for kind in KINDS for row in replays(kind, random, arguments.bisections)]
    page = table.page(rows)
    if (arguments.bisections, arguments.seed) != (BISECTIONS, SEED):
        print(page)
        return
    ROWS.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replaced(text, "replays", page), encoding="utf-8")


def replays(
    kind: Kind, random: np.random.Generator, bisections: int
) -> Iterator[Mapping[str, Any]]:
    """Bisections of one kind, half of them with a culprit; each takes one of the pools."""
    print(f"{kind.name} ...", file=sys.stderr)
    pools = list(recorded(clock=kind.clock))
    noises = {pool.name: pool.noise for pool in pools}
    for planted in (True, False):
        for _ in range(bisections):
            pool = pools[random.integers(len(pools))]
            culprit = int(random.integers(1, COMMITS + 1)) if planted else None
            search = started(kind, noises[pool.name], random)
            judgement, done = bisected(search, Machine(kind, pool, random), culprit)
            yield row_of(kind, pool, culprit, judgement, done)


def recorded(*, clock: bool) -> Iterator[Pool]:
    """The pools: pairs of equal code, of each case and machine with enough of them."""
    for machine, file in SOURCES.items():
        lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        good = [row for row in lines if row["gate"] == "equal" and row.get("baseline_s")]
        for case, group in groupby(sorted(good, key=_case), _case):
            rows = list(group)
            if len(rows) >= FEWEST:
                equal, slower = (
                    [turned.pair_of(row, more, clock=clock) for row in rows]
                    for more in (0.0, PLANTED)
                )
                yield Pool(f"{machine} {case}", equal, slower)


def _case(row: Mapping[str, Any]) -> str:
    return str(row["name"])


def started(kind: Kind, noise: float, random: np.random.Generator) -> Search:
    """A bisection as it begins."""
    if not kind.known:
        return Search(COMMITS)
    told = math.log1p(PLANTED) * math.exp(random.normal(0.0, FINDING))
    return Search(COMMITS, expected=told, noise=PairNoise(noise, HISTORY))


def bisected(search: Search, machine: Machine, culprit: int | None) -> tuple[Judgement, Search]:
    """Measure what is next until there is an outcome."""
    while (judgement := judged(search)).next is not None:
        commit, beside = judgement.next
        slower = culprit is not None and beside < culprit <= commit
        differences = machine.measure(slower=slower)
        probes = (*search.probes, Probe(commit, beside))
        told = [
            replace(probe, difference=difference)
            for probe, difference in zip(probes, differences, strict=True)
        ]
        search = replace(search, probes=tuple(told))
    return judgement, search


def row_of(
    kind: Kind, pool: Pool, culprit: int | None, judgement: Judgement, done: Search
) -> dict[str, Any]:
    """One bisection as a line."""
    assert judgement.outcome is not None
    named = judgement.outcome in (BisectionOutcome.CULPRIT, BisectionOutcome.RANGE)
    return {
        "kind": kind.name,
        "pool": pool.name,
        "culprit": culprit,
        "outcome": judgement.outcome.value,
        "named": judgement.last if named else None,
        "probability": round(judgement.probability, 4),
        "processes": done.processes,
        "builds": len({place for probe in done.probes for place in (probe.commit, probe.beside)}),
    }


if __name__ == "__main__":
    main()
