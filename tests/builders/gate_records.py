"""Case records out of a few numbers, for tests of what is pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.contracts import Direction
from service.analysis.gate import CaseRecord, Measured, Pair, Trouble, decide
from service.analysis.gate.pairs import Metric
from service.schemas.policy import Policy

QUIET = [0.001, -0.001, 0.0005, -0.0005, 0.001, -0.001, 0.0, 0.0005]
"""Log ratios of pairs of equal code."""
LOUD = [0.06, -0.07, 0.05, -0.06, 0.07, -0.05, 0.06, -0.06]
"""Log ratios with a noise of 8 %: the interval is wider than any limit that a test sets."""


def slower(by: float) -> list[float]:
    """Log ratios of pairs whose contender is slower by this share."""
    return [difference + math.log1p(-by) for difference in QUIET]


def decided(*records: CaseRecord, policy: Policy | None = None, last: bool = True) -> Any:
    """Decide a gate of these cases."""
    return decide(records, policy or Policy(), ("old", "new"), last=last)


def process(throughput: float, software: str = "old", **more: float) -> Measured:
    """A process of that throughput and code on one device; of ``more`` metrics less is better."""
    metrics = {"throughput": Metric(value=throughput, unit="img/s", direction=Direction.HIGHER)}
    for name, value in more.items():
        metrics[name] = Metric(value=value, unit="1", direction=Direction.LOWER)
    return Measured(
        metrics=metrics,
        device="GPU-1",
        comparability={"hw.gpu.name": "H200"},
        software=software,
    )


def record(differences: Sequence[float], key: str = "resnet50:full", **more: float) -> CaseRecord:
    """A case whose pairs' log ratios are ``differences``; ``more`` is what the contender has of
    metrics of which the baseline has 1."""
    ones = dict.fromkeys(more, 1.0)
    pairs = [
        Pair(
            baseline=process(100.0, **ones),
            contender=process(100.0 * math.exp(difference), "new", **more),
        )
        for difference in differences
    ]
    return CaseRecord(case_key=key, pairs=tuple(pairs))


def disturbed(*flags: str, software: str = "old") -> Measured:
    """A process whose device was disturbed in these ways."""
    return Measured(
        trouble=Trouble.DISTURBED, reason=", ".join(flags), device="GPU-1", software=software
    )


def swapped(one: CaseRecord) -> CaseRecord:
    """The same with baseline and contender exchanged."""
    pairs = tuple(Pair(baseline=pair.contender, contender=pair.baseline) for pair in one.pairs)
    return one.model_copy(update={"pairs": pairs})
