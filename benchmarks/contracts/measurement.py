"""The measurements of one process: passes, telemetry, environment."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from benchmarks.contracts.compilation import Compilation
from benchmarks.contracts.gang import Account, GangBlock, GangTrace, RankTimes
from benchmarks.contracts.profile import Input, Phases, Profile
from benchmarks.contracts.values import (
    Contract,
    Count,
    Direction,
    Line,
    Name,
    Number,
    Seconds,
    Share,
    Trace,
)


class Sample(Contract):
    """Repeated raw measurements of one metric, one per replicate; the service summarises them."""

    metric: Name
    unit: Line
    direction: Direction
    values: tuple[Number, ...] = Field(min_length=1, max_length=50)
    half_widths: tuple[Number, ...] | None = Field(default=None, max_length=50)
    """95 % half-width within each replicate: a diagnostic, not the published interval."""

    @model_validator(mode="after")
    def _has_one_half_width_per_value(self) -> Self:
        if self.half_widths is not None and len(self.half_widths) != len(self.values):
            raise ValueError("half_widths needs one entry for each value")
        return self


class Environment(Contract):
    """Hardware and software fingerprint: flat facts under dotted names.

    Names that begin with ``hw.`` describe the node, ``sw.`` the software, ``flag.`` the settings
    that the measurement put in force. `COMPARABILITY` names those that define a series.
    """

    facts: dict[Annotated[str, Field(pattern=r"^(hw|sw|flag)\.[A-Za-z0-9_.-]{1,120}$")], Line] = (
        Field(max_length=2_000)
    )

    def comparability(self) -> dict[str, str]:
        """The facts that must agree for two points to stand in one series."""
        return {name: self.facts[name] for name in COMPARABILITY if name in self.facts}


COMPARABILITY = ("hw.device", "hw.gpu.name", "hw.cpu.model", "hw.cpu.usable", "sw.data")
"""Kind of hardware and of data, never a software version: a new driver must show up as a change
*inside* a series, not start a new one. Nothing here may be an unstable reading."""


class Window(Contract):
    """A span on the node's CLOCK_MONOTONIC, which every process of the node shares."""

    start_s: Number
    end_s: Number


class StopReason(StrEnum):
    """The reason why a timed pass ended."""

    PRECISE = "precise"
    PLATEAU = "plateau"
    TIME = "time"
    STEPS = "steps"


class Pass(Contract):
    """One timed pass: FULL with the loader, or SYNTH with batches already on the device."""

    window: Window
    steps: Count
    block_steps: Count
    rate: Number
    """Items per second: ratio of sums over the whole pass."""
    half_width: Number | None
    """95 % half-width of ``rate`` over block means."""
    lag1: Number | None
    n_eff: Number | None
    stop: StopReason
    p50_s: Seconds
    """Median step time. With `lengths=real` this and the next three are of means of cycles."""
    p90_s: Seconds
    p99_s: Seconds
    max_s: Seconds
    stall_s: Seconds
    """Mean device idle time per step before the batch was there."""
    copy_s: Seconds
    """Mean host-to-device copy time per step on the compute stream."""
    work_s: Seconds
    enqueue_s: Seconds
    """Mean host time to queue a step's work, with the time for which a full queue holds it back."""
    host_s: Seconds | None = None
    """Host time to queue a step while the device has nothing else queued; of SYNTH on a GPU."""
    compile_s: Seconds | None = None
    """Seconds of the pass in which the compiler worked; None where nothing was compiled."""
    drained: Share | None = None
    """Share of steps at whose start the device had already finished everything: host too slow."""
    transfer_s: Seconds | None = None
    """Mean length of a batch's copy on a stream of its own; None where copies are on the compute
    stream. ``copy_s`` is then what a step still waited for."""
    overlap: Share | None = None
    """Share of that copying which no step waited for."""
    wall_s: Seconds
    """The pass by the host's clock; disagreement with the events is flagged."""
    slow_steps: Count = 0
    """Steps that took more than 1.5 times the median."""
    cpu_pressure: Share | None = None
    """Share of the pass in which some task of the node waited for a CPU; None where the kernel
    does not tell."""
    sm_clock_hz: Number | None = None
    """Mean clock of the device's SMs, as they counted it; None where they cannot be asked."""
    step_trace: Trace
    stall_trace: Trace
    copy_trace: Trace
    work_trace: Trace
    ranks: tuple[RankTimes, ...] = Field(default=(), max_length=64)
    """Each rank's own; of a gang the times above are those of the slowest rank, block by block."""
    blocks: tuple[GangBlock, ...] = Field(default=(), max_length=1_000)
    """A gang's blocks; kept of SYNTH alone, if an account is asked for."""


class Warmup(Contract):
    """The course of a warm-up. Its end is detected, with floors and a cap."""

    steps: Count
    s: Seconds
    reason: Literal["steady", "flat", "capped"]
    first_step_s: Seconds
    """Compilation, autotuning and allocation; a metric of its own, never part of steady state. With
    `lengths=real` of a whole cycle, so that each shape is in it."""


class Telemetry(Contract):
    """NVML readings of one device during a timed pass, sampled by the supervisor at 10 Hz."""

    hz: Number
    t_s: Trace
    """Seconds since the start of the pass's window."""
    channels: dict[Name, Trace] = Field(max_length=64)
    """sm_clock_hz, memory_clock_hz, power_w, temperature_c, utilization, memory_used_b ..."""
    reasons: dict[Name, Share] = Field(default_factory=dict, max_length=64)
    """Share of readings in which each clock event reason was active, of a gang on any GPU."""
    energy_j: Number | None = None
    """Difference of the total-energy counter, of a gang of those of all its GPUs over one window,
    which the other channels are of one of; None for windows under 5 s."""
    other_processes: Count = 0
    """Compute processes on the device that are not ours, at most at once."""


class Replicate(Contract):
    """One fresh process's measurement of a case."""

    seed: Count
    import_s: Seconds
    build_s: Seconds
    warmup: Warmup
    full: Pass
    synth: Pass
    peak_memory_b: Count
    """Most bytes the allocator held for tensors; on a CPU the process's peak resident set."""
    reserved_memory_b: Count = 0
    allocator_retries: Count = 0
    """Times that the allocator had to give memory back to the driver and try again."""
    compilation: Compilation | None = None
    """What the compiler did; None where nothing was compiled."""
    exchange_s: Number | None = None
    """Seconds that exchange adds to a step of a gang, as measured, if its account is asked for."""
    exchange_blocks: tuple[GangBlock, ...] = Field(default=(), max_length=1_000)
    """Blocks with and without exchange in turn, from which that is told."""
    account: Account | None = None
    """Account of a gang, if it is asked for."""
    gang_trace: GangTrace | None = None
    """Traced steps of a gang, if its account is asked for: they split its exchange."""
    telemetry: dict[Literal["full", "synth"], Telemetry] = Field(default_factory=dict)
    phases: Phases | None = None
    """None where they were not asked for."""
    input: Input | None = None
    """The cost of a sample; None where no phases were asked for."""
    profile: Profile | None = None
    """None where none was asked for."""
    flags: tuple[Name, ...] = Field(default=(), max_length=100)
    """warmup_incomplete, clock_mismatch, tail ...: nothing is dropped, everything is said."""

    def sm_clock_hz(self, name: Literal["full", "synth"]) -> float | None:
        """Give the mean SM clock of a pass: by the SMs, else by telemetry; None if by neither."""
        timed = self.full if name == "full" else self.synth
        if timed.sm_clock_hz is not None:
            return timed.sm_clock_hz
        telemetry = self.telemetry.get(name)
        trace = telemetry.channels.get("sm_clock_hz") if telemetry else None
        return trace.mean() if trace else None
