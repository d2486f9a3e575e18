"""Case records out of a few numbers, for tests of what is pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.contracts import Direction
from service.analysis.gate import CaseRecord, Measured, Pair, Trouble
from service.analysis.gate.pairs import Metric


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
