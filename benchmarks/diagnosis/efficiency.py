"""The share of the device that a case used, from its work and its speed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

from benchmarks.contracts import Case, Efficiency, Pass, Replicate, Use, Work
from benchmarks.diagnosis import peaks
from benchmarks.diagnosis.peaks import Peak

PassName = Literal["full", "synth"]


def counted(work: Work | None, case: Case, facts: Mapping[str, str], why: str = "") -> Efficiency:
    """Return the efficiency as far as it is known without timings.

    ``why`` is the reason for a missing ``work``.
    """
    row, dtype = peaks.match(facts), peaks.dtype(facts)
    reason = why
    if row is None:
        reason = peaks.why_none(facts)
    elif "fp8" in case.axes.values():
        reason = "Matrix products run in fp8 and in bf16, so there is no one peak to hold to."
        row = None
    return Efficiency(
        work=work,
        dtype=dtype,
        device=row.device if row else "",
        peak_flop_per_s=row.flop_per_s.get(dtype) if row else None,
        reason=reason,
    )


def used(
    efficiency: Efficiency,
    replicates: Sequence[Replicate],
    batch_items: int,
    facts: Mapping[str, str],
) -> Efficiency:
    """``efficiency`` with what each pass reached, the mean over replicates."""
    if efficiency.work is None or not replicates:
        return efficiency
    row = peaks.match(facts) if efficiency.device else None
    passes: dict[PassName, list[Pass]] = {
        "full": [replicate.full for replicate in replicates],
        "synth": [replicate.synth for replicate in replicates],
    }
    uses = {
        name: _use(efficiency, row, timed, batch_items, _clock(replicates, name))
        for name, timed in passes.items()
    }
    return efficiency.model_copy(update={"uses": uses})


def _use(
    efficiency: Efficiency,
    row: Peak | None,
    passes: Sequence[Pass],
    items: int,
    clock_hz: float | None,
) -> Use:
    assert efficiency.work is not None
    rate = fmean(one.rate for one in passes)
    flop_per_s = efficiency.work.flops_per_item * rate
    if row is None or efficiency.dtype not in row.flop_per_s:
        return Use(flop_per_s=flop_per_s)
    reached = row.achievable.get(efficiency.dtype)
    clocked = None
    if clock_hz:
        clocked = flop_per_s / (row.sm_count * row.flop_per_clock[efficiency.dtype] * clock_hz)
    roof_s = efficiency.work.roof_s
    return Use(
        flop_per_s=flop_per_s,
        mfu=flop_per_s / row.flop_per_s[efficiency.dtype],
        mfu_clock=clocked,
        vs_achievable=flop_per_s / reached if reached else None,
        roofline_fraction=roof_s * rate / items if roof_s and items else None,
    )


def _clock(replicates: Sequence[Replicate], name: PassName) -> float | None:
    """Mean SM clock of a pass; None where it is not known of every replicate."""
    means = [replicate.sm_clock_hz(name) for replicate in replicates]
    known = [mean for mean in means if mean is not None]
    return fmean(known) if known and len(known) == len(means) else None
