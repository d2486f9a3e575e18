"""Plays gates out of step times: pairs come one by one until each case is settled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import stdtrit

from benchmarks.contracts import Direction
from service.analysis.gate import CaseRecord, Measured, Pair
from service.analysis.gate.decision import decide_case
from service.analysis.gate.metrics import Levels
from service.analysis.gate.pairs import Metric
from service.analysis.statement import Statement
from service.schemas.gate import CaseFinding, CaseVerdict
from service.schemas.policy import Policy
from trials.gate.replicates import Times

POLICY = Policy()


@dataclass(frozen=True, slots=True)
class Row:
    """One case of one gate."""

    replicates: str
    gate: int
    planted: str | None
    """The configuration whose contender was made slower; None in an A/A gate."""
    case: str
    verdict: str
    pairs: int
    change: float | None
    low: float | None
    high: float | None
    naive: bool
    """Whether Student's t at 1 % calls the contender slower after any pair, as is often done."""

    def line(self) -> str:
        """The row as a line of JSON."""
        fields = asdict(self)
        for name in ("change", "low", "high"):
            fields[name] = None if fields[name] is None else round(fields[name], 6)
        return json.dumps(fields) + "\n"


@dataclass(frozen=True, slots=True)
class Plan:
    """What kind of gates."""

    replicates: str
    planted: str | None = None
    slowdown: float = 0.01


def play(plan: Plan, gate: int, processes: Mapping[str, Times]) -> list[Row]:
    """One gate over all configurations; ``processes`` are in the order in which they run.

    Two successive processes make a pair, and every other pair is turned round: A B B A.
    """
    levels = Levels.of(POLICY, processes)
    rows = []
    for name, times in processes.items():
        baseline, contender = _sides(times)
        if name == plan.planted:
            contender = contender * (1 + plan.slowdown)
        finding = settled(name, baseline, contender, levels)
        metric = finding.metrics[0] if finding.metrics else None
        rows.append(
            Row(
                replicates=plan.replicates,
                gate=gate,
                planted=plan.planted,
                case=name,
                verdict=finding.verdict.value,
                pairs=finding.pairs,
                change=metric.change if metric else None,
                low=metric.low if metric else None,
                high=metric.high if metric else None,
                naive=_naive(baseline, contender),
            )
        )
    return rows


def _sides(times: Times) -> tuple[Times, Times]:
    pairs = times[: len(times) // 2 * 2].reshape(-1, 2).copy()
    pairs[1::2] = pairs[1::2, ::-1]
    return pairs[:, 0], pairs[:, 1]


def settled(name: str, baseline: Times, contender: Times, levels: Levels) -> CaseFinding[Statement]:
    """What the gate says of a case, given step times in s of both sides, at least three each."""
    rule = POLICY.rule_of(name)
    pairs = [
        Pair(baseline=_process(before), contender=_process(after))
        for before, after in zip(baseline, contender, strict=True)
    ][: POLICY.max_pairs]
    for count in range(POLICY.min_pairs, len(pairs) + 1):
        record = CaseRecord(case_key=name, pairs=tuple(pairs[:count]), one_revision=True)
        finding = decide_case(record, rule, levels, last=count == len(pairs))
        if finding.settled:
            break
    return finding


def _process(step_s: float) -> Measured:
    rate = Metric(value=1 / float(step_s), unit="img/s", direction=Direction.HIGHER)
    return Measured(metrics={"throughput": rate}, device="one")


def _naive(baseline: Times, contender: Times) -> bool:
    slower = np.log(contender / baseline)
    for count in range(3, len(slower) + 1):
        some = slower[:count]
        spread = some.std(ddof=1) / np.sqrt(count)
        if spread > 0 and some.mean() / spread > float(stdtrit(count - 1, 0.995)):
            return True
    return False


FALSE = CaseVerdict.WORSE.value
