"""Words for the fastest case of a workload, those as good, and the case that it overtook."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.contracts import Case
from service.schemas.best import BestCase, RankedCase
from service.schemas.series import Ratio
from service.wording import formats

NAMED = 2
"""Cases as good that are named; of more the number is told."""


def case_name(case: Case) -> str:
    """Name a case by what it sets: ``compile=default precision=bf16``, or ``all defaults``."""
    return " ".join(f"{axis}={value}" for axis, value in sorted(case.axes.items())) or (
        "all defaults"
    )


def overtook(best: BestCase) -> str:
    """Say which case was overtaken, since when and by how much; empty if none was."""
    if best.overtaken is None:
        return ""
    told = best.overtaken
    return (
        f"{case_name(best.best.case)} overtook {case_name(told.before.case)} at "
        f"{formats.revision(told.since_revision)}, measured {formats.moment(told.since)}: it is "
        f"{faster_by(told.faster)}."
    )


def faster_by(ratio: Ratio) -> str:
    """Write a ratio above 1: ``4.1 % faster (95 % interval +3.0 % to +5.2 %)``."""
    said = f"{formats.size(ratio.value - 1)} faster"
    if ratio.low is None or ratio.high is None:
        return said
    low, high = formats.change(ratio.low - 1), formats.change(ratio.high - 1)
    return f"{said} (95{formats.NBSP}% interval {low} to {high})"


def as_good(others: Sequence[RankedCase]) -> str:
    """Name cases as good as the best, or how many; empty if there is none."""
    if len(others) > NAMED:
        return formats.counted(len(others), "case")
    return " or ".join(case_name(one.case) for one in others)


def spread_of_cases(best: BestCase) -> str:
    """Say how far the cases of a ranking lie apart: ``12 cases, median 2,400 img/s, ...``."""
    middle, worst = (formats.quantity(value, best.unit) for value in (best.median, best.worst))
    return f"{formats.counted(best.cases, 'case')}, median {middle}, slowest {worst}"
