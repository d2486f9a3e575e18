"""The work of a step, and the share of the device's rates that a case reaches."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from benchmarks.contracts.values import Contract, Line, Name, Number


class Work(Contract):
    """The work that one optimizer step needs; what a case computes beside it is left out."""

    flops_per_item: Number = Field(ge=0)
    """Counted on an eager step, two for a multiply-add; what checkpointing repeats is not in it."""
    flops_by_formula: Number | None = Field(default=None, ge=0)
    """The workload's own formula for the same, where it has one."""
    roof_s: Number | None = Field(default=None, ge=0)
    """Least seconds of a step on this device by its nominal rates: each operation's larger one of
    arithmetic and memory traffic, elementwise operations taken to be fused away."""
    moved_b: Number | None = Field(default=None, ge=0)
    """Bytes that a step reads and writes in the device's memory, elementwise operations and copies
    taken to be fused away; the update is in it."""


class Use(Contract):
    """Shares of the device's rates that one timed pass reached, over all replicates."""

    flop_per_s: Number
    mfu: Number | None = None
    """Model FLOP/s over the nominal dense peak of the dtype."""
    mfu_clock: Number | None = None
    """The same over the peak at the mean SM clock of the pass."""
    vs_achievable: Number | None = None
    """Model FLOP/s over what a large matrix product reaches: as measured on such a device, else by
    this device's own canary."""
    roofline_fraction: Number | None = None
    """`Work.roof_s` over the mean step time."""
    moved_b_per_s: Number | None = None
    """`Work.moved_b` over the mean step time."""
    vs_copy: Number | None = None
    """The same over the rate of a copy on this device, read and written, by its own canary."""


class Efficiency(Contract):
    """Model FLOP utilisation and distance to the roofline; absent values have a reason."""

    work: Work | None = None
    dtype: Name = "fp32"
    """Arithmetic of the matrix products: fp32, tf32, bf16, fp16, or fp8 for a mix with bf16."""
    device: Line = ""
    """The row of `benchmarks.diagnosis.peaks` that was matched."""
    peak_flop_per_s: Number | None = None
    uses: dict[Literal["full", "synth"], Use] = Field(default_factory=dict)
    reason: Line = ""
    """Why there is no utilisation; empty if there is."""
