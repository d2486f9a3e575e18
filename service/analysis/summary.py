"""One value with an interval out of raw replicate values. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from scipy.special import stdtrit

from benchmarks.contracts import Sample
from service.schemas.reports import Summary

NORMAL_95 = 1.96
"""Half-width of a 95 % interval within a process, which has many blocks, in standard errors."""

Basis = Literal["replicates", "within_run", "none"]


def summarise(sample: Sample) -> Summary:
    """The mean over replicates with Student's interval t(R-1) * sd / sqrt(R).

    A single replicate has no such interval; its half-width within the run is given instead and
    named so, for it says how steady that process was and not how steady the benchmark is. Neither
    holds what differs between nights and nodes, which `service.analysis.variance` knows.
    """
    return summarise_values(sample.values, sample.half_widths)


def summarise_values(
    values: Sequence[float], half_widths: Sequence[float] | None = None
) -> Summary:
    """As `summarise`, of values that come without a sample."""
    count = len(values)
    # Divided first, so that huge values cannot overflow the sum.
    mean = math.fsum(value / count for value in values)
    half_width, basis = _half_width(values, half_widths, mean)
    if half_width is None or not math.isfinite(mean - half_width + half_width * 2):
        return Summary(mean, None, None, "none", count)
    return Summary(mean, mean - half_width, mean + half_width, basis, count)


def half_width_factor(count: int) -> float:
    """Student's 95 % half-width of a mean of ``count`` values, in their standard deviations."""
    return float(stdtrit(count - 1, 0.975)) / math.sqrt(count)


def within(sample: Sample) -> float | None:
    """Give the usual 95 % half-width within one process, in the sample's unit, if it is known."""
    known = [width for width in sample.half_widths or () if width >= 0]
    usual = math.hypot(*(width / math.sqrt(len(known)) for width in known))
    return usual if known and math.isfinite(usual) else None


def _half_width(
    values: Sequence[float], half_widths: Sequence[float] | None, mean: float
) -> tuple[float | None, Basis]:
    count = len(values)
    if count >= 2:
        deviation = math.hypot(*(value - mean for value in values)) / math.sqrt(count - 1)
        return half_width_factor(count) * deviation, "replicates"
    if half_widths is not None and half_widths[0] >= 0:
        return half_widths[0], "within_run"
    return None, "none"
