"""The share of the device that a case used, from its work and its speed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from benchmarks.contracts import Case, Efficiency, Pass, Replicate, Use, Work
from benchmarks.contracts.canary import PRODUCTS
from benchmarks.diagnosis import peaks
from benchmarks.diagnosis.peaks import Peak

PassName = Literal["full", "synth"]
_MIXED = "fp8"
"""Matrix products in fp8, and others in bf16: there is no one rate to hold them to."""


def counted(work: Work | None, case: Case, facts: Mapping[str, str], why: str = "") -> Efficiency:
    """Return the efficiency as far as it is known without timings.

    ``why`` is the reason for a missing ``work``.
    """
    row, dtype = peaks.match(facts), peaks.dtype(facts)
    reason = why
    if row is None:
        reason = peaks.why_none(facts)
    elif _MIXED in case.axes.values():
        reason = "Matrix products run in fp8 and in bf16, so there is no one peak to hold to."
        row, dtype = None, _MIXED
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
    readings: Mapping[str, float] = MappingProxyType({}),
) -> Efficiency:
    """``efficiency`` with what each pass reached, the mean over replicates.

    ``readings`` are of the device's own canary. A GPU without a row of peaks is held to them.
    """
    if efficiency.work is None or not replicates:
        return efficiency
    rates = _rates(efficiency, facts, readings)
    passes: dict[PassName, list[Pass]] = {
        "full": [replicate.full for replicate in replicates],
        "synth": [replicate.synth for replicate in replicates],
    }
    uses = {
        name: _use(efficiency, rates, timed, batch_items, _clock(replicates, name))
        for name, timed in passes.items()
    }
    held = rates.peak is None and rates.product is not None
    reason = peaks.held_to_canary(facts) if held else efficiency.reason
    return efficiency.model_copy(update={"uses": uses, "reason": reason})


@dataclass(frozen=True, slots=True)
class _Rates:
    """The rates of a device that a pass is held to; None where one is not known."""

    peak: Peak | None
    product: float | None
    """FLOP/s of a large matrix product, by the table of peaks or else by the canary."""
    copy: float | None
    """B/s, read and written, by the canary."""


def _rates(
    efficiency: Efficiency, facts: Mapping[str, str], readings: Mapping[str, float]
) -> _Rates:
    # A CPU's canary multiplies in fp32 whatever it is called.
    own = readings if facts.get("hw.device") == "cuda" else {}
    row, dtype, copy = peaks.match(facts), efficiency.dtype, own.get("copy_b_s")
    if dtype == _MIXED:
        return _Rates(row, None, copy)
    known = row.achievable.get(dtype) if row is not None else None
    return _Rates(row, known or own.get(PRODUCTS.get(dtype, "")), copy)


def _use(
    efficiency: Efficiency,
    rates: _Rates,
    passes: Sequence[Pass],
    items: int,
    clock_hz: float | None,
) -> Use:
    assert efficiency.work is not None
    rate, work = fmean(one.rate for one in passes), efficiency.work
    flop_per_s = work.flops_per_item * rate
    moved = work.moved_b * rate / items if work.moved_b and items else None
    known = {
        "flop_per_s": flop_per_s,
        "vs_achievable": flop_per_s / rates.product if rates.product else None,
        "moved_b_per_s": moved,
        "vs_copy": moved / rates.copy if moved and rates.copy else None,
    }
    row, dtype = rates.peak, efficiency.dtype
    if row is None or dtype == _MIXED or dtype not in row.flop_per_s:
        return Use.model_validate(known)
    known["mfu"] = flop_per_s / row.flop_per_s[dtype]
    if clock_hz:
        known["mfu_clock"] = flop_per_s / (row.sm_count * row.flop_per_clock[dtype] * clock_hz)
    if work.roof_s and items:
        known["roofline_fraction"] = work.roof_s * rate / items
    return Use.model_validate(known)


def _clock(replicates: Sequence[Replicate], name: PassName) -> float | None:
    """Mean SM clock of a pass; None where it is not known of every replicate."""
    means = [replicate.sm_clock_hz(name) for replicate in replicates]
    known = [mean for mean in means if mean is not None]
    return fmean(known) if known and len(known) == len(means) else None
