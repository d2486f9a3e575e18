"""Bisections over recorded pairs of equal code, with slower commits planted at random.

``PYTHONPATH=.:tests python -m trials.bisection`` replays 1,000 bisections of 24 commits with a
culprit and 1,000 without for each kind of replay, and 1,000 with two culprits. It writes a line for
each bisection to ``benchmarks/results/bisection/replays.jsonl`` and the tables into its
``README.md``. Pairs are drawn from the recorded ones of one case and machine, with replacement. A
culprit's pair is the same pair with each step of the contender longer, by one percent unless the
kind says otherwise, and goes through the service's own functions.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
from builders.marked import replaced

from service.analysis.bisection import Judgement, Probe, Search, judged
from service.analysis.gate import Pair
from service.analysis.gate.metrics import worse_by
from service.analysis.gate.noise import PairNoise
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
    planted: tuple[float, ...] = (PLANTED,)
    """How much longer a step takes from each culprit on, as a share; the largest first."""

    @property
    def several(self) -> bool:
        """Whether it has more than one culprit."""
        return len(self.planted) > 1


KINDS = (
    Kind("a finding, noise known from gates"),
    Kind("two revisions, nothing known", known=False),
    Kind("pairs in the order of recording", in_order=True),
    Kind("3 % of processes 7 % slow", odd=0.03),
    Kind("drift of 0.1 % a process", drift=0.001),
    Kind("without the clocks", clock=False),
    Kind("2 % and 1 %, a finding", planted=(0.02, 0.01)),
    Kind("2 % and 1 %, two revisions", planted=(0.02, 0.01), known=False),
    Kind("1 % and 1 %, a finding", planted=(0.01, 0.01)),
    Kind("2 % and 1 %, 3 % of processes 7 % slow", planted=(0.02, 0.01), odd=0.03),
)


@dataclass(frozen=True, slots=True)
class Pool:
    """The recorded pairs of one case on one kind of machine, as they were and with culprits."""

    name: str
    slower: Mapping[float, Sequence[Pair]]
    """By how much longer each step of the contender takes."""

    @property
    def equal(self) -> Sequence[Pair]:
        """The pairs as they were."""
        return self.slower[0.0]

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

    def measure(self, slower: float) -> list[float]:
        """Draw one more pair, and give the differences of all so far."""
        count = len(self._pool.equal)
        place = self._start + len(self._pairs) if self._kind.in_order else self._draw(count)
        self._pairs.append(self._pool.slower[slower][place % count])
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
    """Bisections of one kind, half of them with a culprit; each takes one of the pools.

    With several culprits there are none without.
    """
    print(f"{kind.name} ...", file=sys.stderr)
    pools = list(recorded(kind))
    noises = {pool.name: pool.noise for pool in pools}
    for planted in (True,) if kind.several else (True, False):
        for _ in range(bisections):
            pool = pools[random.integers(len(pools))]
            places = _places(kind, random) if planted else []
            culprits = dict(zip(places, kind.planted, strict=planted))
            search = started(kind, noises[pool.name], random)
            judgement, done = bisected(search, Machine(kind, pool, random), culprits)
            yield row_of(kind, pool, places, judgement, done)


def _places(kind: Kind, random: np.random.Generator) -> list[int]:
    if not kind.several:
        return [int(random.integers(1, COMMITS + 1))]
    chosen = random.choice(np.arange(1, COMMITS + 1), len(kind.planted), replace=False)
    return [int(place) for place in chosen]


def recorded(kind: Kind) -> Iterator[Pool]:
    """The pools: pairs of equal code, of each case and machine with enough of them."""
    shown = {
        together(some)
        for count in range(len(kind.planted) + 1)
        for some in combinations(kind.planted, count)
    }
    for machine, file in SOURCES.items():
        lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        good = [row for row in lines if row["gate"] == "equal" and row.get("baseline_s")]
        for case, group in groupby(sorted(good, key=_case), _case):
            rows = list(group)
            if len(rows) >= FEWEST:
                slower = {
                    more: [turned.pair_of(row, more, clock=kind.clock) for row in rows]
                    for more in shown
                }
                yield Pool(f"{machine} {case}", slower)


def together(planted: Iterable[float]) -> float:
    """By how much longer a step takes with several culprits."""
    return round(math.prod(1.0 + more for more in planted) - 1.0, 9)


def _case(row: Mapping[str, Any]) -> str:
    return str(row["name"])


def started(kind: Kind, noise: float, random: np.random.Generator) -> Search:
    """A bisection as it begins."""
    if not kind.known:
        return Search(COMMITS)
    told = math.log1p(together(kind.planted)) * math.exp(random.normal(0.0, FINDING))
    return Search(COMMITS, expected=told, noise=PairNoise(noise, HISTORY))


def bisected(
    search: Search, machine: Machine, culprits: Mapping[int, float]
) -> tuple[Judgement, Search]:
    """Measure what is next until there is an outcome."""
    while (judgement := judged(search)).next is not None:
        commit, beside = judgement.next
        shown = [more for place, more in culprits.items() if beside < place <= commit]
        differences = machine.measure(together(shown))
        probes = (*search.probes, Probe(commit, beside))
        told = [
            replace(probe, difference=difference)
            for probe, difference in zip(probes, differences, strict=True)
        ]
        search = replace(search, probes=tuple(told))
    return judgement, search


def row_of(
    kind: Kind, pool: Pool, culprits: Sequence[int], judgement: Judgement, done: Search
) -> dict[str, Any]:
    """One bisection as a line."""
    assert judgement.outcome is not None
    row = {
        "kind": kind.name,
        "pool": pool.name,
        "culprit": culprits[0] if culprits else None,
        "outcome": judgement.outcome.value,
        "named": judgement.named[0].last if judgement.named else None,
        "probability": round(judgement.probability, 4),
        "processes": done.processes,
        "builds": len({place for probe in done.probes for place in (probe.commit, probe.beside)}),
    }
    more = {"others": culprits[1:]} if kind.several else {}
    if kind.several or len(judgement.named) > 1:
        more["named_others"] = [one.last for one in judgement.named[1:]]
    return row | more


if __name__ == "__main__":
    main()
