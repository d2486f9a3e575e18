"""What crosses a boundary: frozen values that service, worker and child process all read.

Base units everywhere: seconds, bytes, hertz, watts, joules, and plain ratios. Units are formatted
only where a person reads them. Nothing here knows torch, a database or a clock.
"""

from __future__ import annotations

import base64
import zlib
from array import array
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, model_validator

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
"""An identifier that is safe in a URL, a file name and a shell: workload, axis, suite, metric."""
Value = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$")]
"""A value on an axis; a string even where it looks like a number."""
Line = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""One printable line."""
Text = Annotated[str, Field(max_length=65_536, pattern=r"^[^\x00]*$")]
"""Several lines, such as the tail of a log."""
Revision = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./+-]{0,99}$")]
"""Names the version under test: a commit hash, a tag, or any label that the team uses."""
Labels = Annotated[dict[Name, Line], Field(max_length=64)]
"""What a worker says of itself and what a job may require, such as ``device: cuda``."""
Seconds = Annotated[FiniteFloat, Field(ge=0)]
Count = Annotated[int, Field(ge=0, le=2**53)]


class Contract(BaseModel):
    """A frozen value; unknown fields are refused so that a typing mistake is never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Direction(StrEnum):
    """Which way a metric is better."""

    HIGHER = "higher"
    LOWER = "lower"


class Case(Contract):
    """A workload with one value on each axis.

    ``axes`` names only what differs from the axes' defaults, so that adding an axis later
    continues every series; `benchmarks.catalog.normalise` brings a case into that form.
    """

    workload: Name
    preset: Name = "auto"
    """``auto`` becomes ``full`` on a GPU and ``tiny`` on a CPU; a result always names which."""
    axes: dict[Name, Value] = Field(default_factory=dict, max_length=64)

    @property
    def key(self) -> str:
        """One line that names the case, such as ``resnet50:full layout=channels_last``."""
        settings = "".join(f" {axis}={value}" for axis, value in sorted(self.axes.items()))
        return f"{self.workload}:{self.preset}{settings}"


class Protocol(Contract):
    """How a case is timed; stored with every result, each default argued in docs/measurement.md."""

    replicates: Annotated[int, Field(ge=1, le=50)] = 1
    """Fresh processes. The process is the unit of replication, not the step."""
    warmup_min_steps: Annotated[int, Field(ge=1, le=10_000)] = 10
    warmup_min_s: Seconds = 3.0
    warmup_max_steps: Annotated[int, Field(ge=1, le=100_000)] = 200
    warmup_max_s: Seconds = 60.0
    settle_c: Annotated[FiniteFloat, Field(gt=0)] = 2.0
    """Warm-up waits until the device's temperature stays within this span for 5 s ..."""
    settle_max_s: Seconds = 20.0
    """... or until so long has passed; 0 does not wait for it."""
    window_min_s: Seconds = 5.0
    window_max_s: Seconds = 30.0
    window_min_steps: Annotated[int, Field(ge=2, le=100_000)] = 30
    window_min_blocks: Annotated[int, Field(ge=2, le=1_000)] = 10
    window_max_blocks: Annotated[int, Field(ge=2, le=1_000)] = 60
    block_min_steps: Annotated[int, Field(ge=1, le=10_000)] = 5
    block_min_s: Seconds = 0.25
    precision: Annotated[FiniteFloat, Field(gt=0, lt=1)] = 0.005
    """Stop a pass once the 95 % half-width over block means is at most this share of the mean."""


class JobSpec(Contract):
    """One case to be measured at one revision."""

    case: Case
    revision: Revision
    revision_at: AwareDatetime | None = None
    """When the revision was made; it orders the history. Without it: when it was first seen."""
    protocol: Protocol = Protocol()
    suite: Name | None = None
    requires: Labels = Field(default_factory=dict)
    """Labels that the worker must have, word for word."""
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    timeout_s: Annotated[FiniteFloat, Field(gt=0, le=86_400)] = 1_800.0
    """Wall-clock limit of one attempt, all replicates included."""
    rerun_of: Line | None = None


class JobState(StrEnum):
    """Where a job stands; the last four are final."""

    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"
    EXPIRED = "expired"


FINAL_STATES = frozenset(
    {
        JobState.SUCCEEDED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.QUARANTINED,
        JobState.EXPIRED,
    }
)


class AttemptState(StrEnum):
    """Where one attempt at a job stands. ``lost`` ends an attempt, never a job."""

    GRANTED = "granted"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    REJECTED = "rejected"


class Status(StrEnum):
    """What became of a measurement."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    """The case cannot run on this device or software; decided before it costs time."""
    OOM = "oom"
    """The batch does not fit. The batch is never made smaller in silence."""
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    CRASHED = "crashed"
    """The child died by a signal."""
    GARBAGE = "garbage"
    """The child ended well but printed no Result."""
    TIMEOUT = "timeout"
    """The child hung or ran past the job's limit."""
    CANCELLED = "cancelled"
    INFRA_ERROR = "infra_error"


class Worker(Contract):
    """What a worker tells the service about itself."""

    name: Name
    labels: Labels = Field(default_factory=dict)
    version: Line = ""


class Claim(Contract):
    """A request for work. The same ``claim_id`` always gets the same lease back."""

    worker: Name
    claim_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    wait_s: Annotated[FiniteFloat, Field(ge=0, le=30)] = 0.0
    """How long the service may hold the request open when there is no work."""


class Lease(Contract):
    """A job handed to a worker for a limited time.

    Durations, not instants: the worker measures them with its own monotonic clock, from the
    moment it *sent* the request, so that it always stops before the service hands the job on.
    """

    job_id: Line
    attempt: Annotated[int, Field(ge=1)]
    secret: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    spec: JobSpec
    lease_s: Annotated[FiniteFloat, Field(gt=0)]
    heartbeat_s: Annotated[FiniteFloat, Field(gt=0)]


class Progress(Contract):
    """Where a running measurement is, for people who watch."""

    replicate: Annotated[int, Field(ge=1)] = 1
    replicates: Annotated[int, Field(ge=1)] = 1
    phase: Name
    """build, first_step, warmup, full, synth ..."""
    step: Count = 0
    fraction: Annotated[FiniteFloat, Field(ge=0, le=1)] = 0.0
    """Share of this replicate that is done, as far as it can be foreseen."""
    throughput: FiniteFloat | None = None
    unit: Line | None = None


class Heartbeat(Contract):
    """A worker's sign of life for one attempt."""

    progress: Progress | None = None


class Renewal(Contract):
    """The answer to a heartbeat."""

    lease_s: Annotated[FiniteFloat, Field(gt=0)]
    cancel: bool = False
    """The job was cancelled: stop the child and report an attempt that was cancelled."""


class Trace(Contract):
    """Many raw values, packed small: float32, zlib, base64."""

    n: Annotated[int, Field(ge=0, le=2_000_000)]
    data: Annotated[str, Field(max_length=16_000_000, pattern=r"^[A-Za-z0-9+/=]*$")]

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Pack ``values`` in their order, rounded to float32."""
        packed = array("f", values)
        return cls(n=len(packed), data=base64.b64encode(zlib.compress(packed.tobytes())).decode())

    def values(self) -> list[float]:
        """Give the values back.

        Raises:
            ValueError: the data are not ``n`` packed float32 values.
        """
        unpacker = zlib.decompressobj()
        try:
            raw = unpacker.decompress(base64.b64decode(self.data, validate=True), 4 * self.n + 1)
        except zlib.error as error:
            raise ValueError(f"a trace cannot be unpacked: {error}") from error
        if len(raw) != 4 * self.n:
            raise ValueError(f"a trace says {self.n} values and holds other than that")
        return array("f", raw).tolist()


class Sample(Contract):
    """Repeated raw measurements of one metric, one per replicate; the service summarises them."""

    metric: Name
    unit: Line
    direction: Direction
    values: tuple[FiniteFloat, ...] = Field(min_length=1, max_length=50)
    half_widths: tuple[FiniteFloat, ...] | None = None
    """95 % half-width within each replicate: a diagnostic, not the published interval."""

    @model_validator(mode="after")
    def _one_half_width_each(self) -> Self:
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


COMPARABILITY = (
    "hw.device",
    "hw.gpu.name",
    "hw.cpu.model",
    "hw.cpu.usable",
    "sw.data",
)
"""Kind of hardware and of data, never a software version: a new driver must show up as a change
*inside* a series, not start a new one. Nothing here may be an unstable reading."""


class Window(Contract):
    """A span on the node's CLOCK_MONOTONIC, which every process of the node shares."""

    start_s: FiniteFloat
    end_s: FiniteFloat


class StopReason(StrEnum):
    """Why a timed pass ended."""

    PRECISE = "precise"
    PLATEAU = "plateau"
    TIME = "time"
    STEPS = "steps"


class Pass(Contract):
    """One timed pass: FULL with the loader, or SYNTH with batches already on the device."""

    window: Window
    steps: Count
    block_steps: Count
    rate: FiniteFloat
    """Items per second: ratio of sums over the whole pass."""
    half_width: FiniteFloat | None
    """95 % half-width of ``rate`` over block means."""
    lag1: FiniteFloat | None
    n_eff: FiniteFloat | None
    stop: StopReason
    p50_s: Seconds
    p90_s: Seconds
    p99_s: Seconds
    max_s: Seconds
    stall_s: Seconds
    """Mean device idle time per step before the batch was there."""
    copy_s: Seconds
    """Mean host-to-device copy time per step on the compute stream."""
    work_s: Seconds
    enqueue_s: Seconds
    """Mean host time to queue a step's work."""
    drained: Annotated[FiniteFloat, Field(ge=0, le=1)] | None = None
    """Share of steps at whose start the device had already finished everything: host too slow."""
    wall_s: Seconds
    """The pass by the host's clock; disagreement with the events is flagged."""
    slow_steps: Count = 0
    """Steps that took more than 1.5 times the median."""
    cpu_pressure: Annotated[FiniteFloat, Field(ge=0, le=1)] | None = None
    """Share of the pass in which some task of the node waited for a CPU; None where the kernel
    does not tell."""
    step_trace: Trace
    stall_trace: Trace
    copy_trace: Trace
    work_trace: Trace


class Warmup(Contract):
    """How warm-up went: detected, with floors and a cap."""

    steps: Count
    s: Seconds
    reason: Literal["steady", "flat", "capped"]
    first_step_s: Seconds
    """Compilation, autotuning and allocation; a metric of its own, never part of steady state."""


class Telemetry(Contract):
    """NVML readings of one device during a timed pass, sampled by the supervisor at 10 Hz."""

    hz: FiniteFloat
    t_s: Trace
    """Seconds since the start of the pass's window."""
    channels: dict[Name, Trace] = Field(max_length=64)
    """sm_clock_hz, memory_clock_hz, power_w, temperature_c, utilization, memory_used_b ..."""
    reasons: dict[Name, Annotated[FiniteFloat, Field(ge=0, le=1)]] = Field(default_factory=dict)
    """Share of readings in which each clock event reason was active."""
    energy_j: FiniteFloat | None = None
    """Difference of the total-energy counter; None for windows under 5 s."""
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
    telemetry: dict[Literal["full", "synth"], Telemetry] = Field(default_factory=dict)
    flags: tuple[Name, ...] = Field(default=(), max_length=100)
    """warmup_incomplete, clock_mismatch, tail ...: nothing is dropped, everything is said."""


class Bottleneck(StrEnum):
    """What limits a case."""

    INPUT = "input"
    OVERHEAD = "overhead"
    DEVICE = "device"
    UNKNOWN = "unknown"


class Verdict(Contract):
    """What stops the model, with its evidence."""

    bottleneck: Bottleneck
    confidence: Literal["high", "low"]
    sentence: Line
    evidence: dict[Name, FiniteFloat] = Field(default_factory=dict)
    bounds: dict[Name, FiniteFloat] = Field(default_factory=dict)
    """Speed-up if a cause vanished, such as ``without_input_stall: 1.7``."""


class Result(Contract):
    """All that one job found out, in one document."""

    schema_version: Literal[1] = 1
    case: Case
    """As measured: the preset resolved, the axes normalised."""
    status: Status
    reason: Line = ""
    """One sentence for a person when the status is not ok."""
    log_tail: Text = ""
    measured_at: AwareDatetime
    protocol: Protocol
    item: Line = "item"
    """What throughput counts: img, token ..."""
    batch_items: Count = 0
    """Items per optimizer step."""
    parameters: Count = 0
    environment: Environment
    samples: tuple[Sample, ...] = Field(default=(), max_length=200)
    replicates: tuple[Replicate, ...] = Field(default=(), max_length=50)
    verdict: Verdict | None = None
    flags: tuple[Name, ...] = Field(default=(), max_length=100)
    repro: Text = ""
    """The command that measures this case again."""

    @model_validator(mode="after")
    def _an_ok_result_has_numbers(self) -> Self:
        if self.status is Status.OK and not self.samples:
            raise ValueError("a result with status ok needs at least one sample")
        return self


class Event(Contract):
    """One line on the child's event pipe: where it is, and that it is alive."""

    at_s: FiniteFloat
    """CLOCK_MONOTONIC when it was written."""
    progress: Progress
