"""What recorded pairs say, as measured and at one clock, and what gates made of them would answer.

``PYTHONPATH=.:tests python -m trials.gate.turned FILE ...`` reads rows of `trials.gate.live` and
prints four tables, with ``--turns 5`` of the first five windows of each side. A replayed gate
draws its pairs from the recorded ones of a case with replacement. With a planted slowdown, each
step of the contender takes one percent longer. In the last column each gate knows the noise of the
twenty before it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean, linear_regression, median, stdev
from typing import Any

import numpy as np
from builders.gate_records import process

from benchmarks.catalog.metrics import sample
from benchmarks.contracts import Turn, Window
from benchmarks.diagnosis.paired import counted, samples
from service.analysis.gate import CaseRecord, Measured, Pair, decide_cases
from service.analysis.gate.noise import KnownNoise
from service.analysis.gate.one_clock import at_one_clock
from service.analysis.gate.pairs import Metric, Timed
from service.analysis.statement import Statement
from service.schemas.gate import CaseFinding, CaseVerdict
from service.schemas.policy import Policy

GATES, SEED, FEWEST, EARLIER, EQUAL = 1_000, 7, 4, 20, 10
PLANTED = 0.01
MOVES = 1e-3
"""Standard deviation of log clocks from which they say something."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--turns", type=int, help="windows of each side that are taken")
    arguments = parser.parse_args()
    rows = [_cut(row, arguments.turns) for row in _rows(arguments.files)]
    print(_heading("case", "code", "gate: pairs, s, answer"))
    for row in rows:
        if row["what"] == "gate":
            took = f"{row['pairs']}, {row['took_s']:.0f} s, {row['outcome']}"
            print(f"| {row['name']} | {row['gate']} | {took} |")
    print(
        "\n"
        + _heading(
            "case", "code", "pairs", "as measured: mean, sd", "at one clock: mean, sd, slope"
        )
    )
    by_case = {
        key: list(group) for key, group in groupby(sorted(filter(_good, rows), key=_key), _key)
    }
    for (name, code), group in by_case.items():
        print(f"| {name} | {code} | {len(group)} | {_spread(group)} |")
    told = ("GPU", "case", "equal processes", "sd of time", "of clock", "slope", "of time adjusted")
    print("\n" + _heading(*told))
    for line in _processes(list(filter(_good, rows))):
        print(line)
    print("\n" + _heading("replayed", "planted", "as measured", "at one clock", "noise known"))
    for line in _replayed(by_case):
        print(line)


def _rows(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def _cut(row: Mapping[str, Any], turns: int | None) -> dict[str, Any]:
    """``row`` with the first ``turns`` windows of each side."""
    of_turns = {f"{side}_{what}" for side in ("baseline", "contender") for what in ("s", "hz")}
    return {name: value[:turns] if name in of_turns else value for name, value in row.items()}


def _good(row: Mapping[str, Any]) -> bool:
    return row["what"] == "pair" and bool(row["baseline_s"])


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["name"], row["gate"]


def _heading(*names: str) -> str:
    return f"| {' | '.join(names)} |\n|{' --- |' * len(names)}"


def _spread(rows: Sequence[Mapping[str, Any]]) -> str:
    pairs = [pair_of(row) for row in rows]
    raw = [_log_ratio(pair) for pair in pairs]
    told = at_one_clock(pairs)
    measured = f"{fmean(raw):+.2%}, {stdev(raw):.2%}" if len(raw) > 1 else "-"
    if told is None:
        return f"{measured} | -"
    at_one = told.differences
    return f"{measured} | {fmean(at_one):+.2%}, {stdev(at_one):.2%}, {told.slope:.2f}"


def _processes(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Spread of fresh processes of equal code on one GPU, and what their clocks leave of it: each
    process is a mean over its windows, and the slope is fitted to these processes. Where clocks
    hardly move there is nothing to take out."""
    of_gpu: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        for side in ("baseline", "contender") if row["gate"] == "equal" else ("baseline",):
            seconds, clocks = row[f"{side}_s"], row[f"{side}_hz"]
            if clocks and all(clocks):
                means = fmean(map(math.log, seconds)), fmean(map(math.log, clocks))
                of_gpu.setdefault((row["gpu"], row["name"]), []).append(means)
    for (gpu, name), sides in of_gpu.items():
        times, clocks = zip(*sides, strict=True)
        if len(sides) < EQUAL or stdev(clocks) < MOVES:
            continue
        slope = linear_regression(clocks, times).slope
        left = stdev(time - slope * clock for time, clock in sides)
        adjusted = left * math.sqrt((len(sides) - 1) / (len(sides) - 2))
        spreads = f"{stdev(times):.2%} | {stdev(clocks):.2%} | {slope:.2f} | {adjusted:.3%}"
        yield f"| {gpu[:12]} | {name} | {len(sides)} | {spreads} |"


def _replayed(by_case: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    random = np.random.default_rng(SEED)
    for (name, code), rows in by_case.items():
        if code != "equal" or len(rows) < FEWEST:
            continue
        for planted in (0.0, PLANTED):
            measured, at_one = (
                [pair_of(row, planted, clock=clock) for row in rows] for clock in (False, True)
            )
            answers = [
                _answers(measured, random),
                _answers(at_one, random),
                _answers(at_one, random, knows=True),
            ]
            yield f"| {name}, {len(rows)} pairs | {planted:.0%} | {' | '.join(answers)} |"


def _answers(pairs: Sequence[Pair], random: np.random.Generator, *, knows: bool = False) -> str:
    ended: list[CaseFinding[Statement]] = []
    for _ in range(GATES):
        before = [one.metrics[0] for one in ended[-EARLIER:]] if knows else []
        ended.append(_gate(pairs, random, KnownNoise.of_gates("throughput", before)))
    verdicts = Counter(one.verdict for one in ended)
    counts = f"{verdicts[CaseVerdict.WORSE]} worse, {verdicts[CaseVerdict.SAME]} same"
    return f"{counts}, {median(one.pairs for one in ended):g} pairs"


def _gate(
    pairs: Sequence[Pair], random: np.random.Generator, known: KnownNoise
) -> CaseFinding[Statement]:
    policy = Policy()
    drawn: list[Pair] = []
    while True:
        drawn.append(pairs[random.integers(len(pairs))])
        if len(drawn) < policy.min_pairs:
            continue
        record = CaseRecord(case_key="case:full", pairs=tuple(drawn), known=known)
        (case,) = decide_cases([record], policy, last=len(drawn) >= policy.max_pairs)
        if case.settled:
            return case


def pair_of(row: Mapping[str, Any], planted: float = 0.0, *, clock: bool = True) -> Pair:
    """A recorded pair; with ``planted`` each step of its contender takes so much longer."""
    sides = [
        [
            Turn(window=Window(start_s=0.0, end_s=1.0), steps=1, step_s=step_s, sm_clock_hz=hz)
            for step_s, hz in zip(row[f"{side}_s"], row[f"{side}_hz"], strict=True)
        ]
        for side in ("baseline", "contender")
    ]
    slower = [turn.model_copy(update={"step_s": turn.step_s * (1 + planted)}) for turn in sides[1]]
    places = counted(sides[0], slower)
    before, after = (
        _measured(turns, places, name, clock=clock)
        for turns, name in zip((sides[0], slower), ("old", "new"), strict=True)
    )
    return Pair(baseline=before, contender=after)


def _measured(
    turns: Sequence[Turn], places: Sequence[int], software: str, *, clock: bool
) -> Measured:
    told = {one.metric: one for one in samples([turns[place] for place in places], "item", 1)}
    side = process(told["throughput"].values[0], software)
    step = sample("step_time", told["step_time"].values[0])
    return side.model_copy(
        update={
            "turns": tuple(
                Timed(step_s=turn.step_s, sm_clock_hz=turn.sm_clock_hz if clock else None)
                for turn in turns
            ),
            "metrics": {
                **side.metrics,
                "step_time": Metric(value=step.values[0], unit=step.unit, direction=step.direction),
            },
        }
    )


def _log_ratio(pair: Pair) -> float:
    assert pair.baseline is not None
    assert pair.contender is not None
    before, after = (side.metrics["step_time"].value for side in (pair.baseline, pair.contender))
    return math.log(after / before)


if __name__ == "__main__":
    main()
