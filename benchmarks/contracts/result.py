"""All that one job found out."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from benchmarks.contracts import values
from benchmarks.contracts.canary import Canary
from benchmarks.contracts.case import Case, Protocol
from benchmarks.contracts.duet import Turn
from benchmarks.contracts.efficiency import Efficiency
from benchmarks.contracts.measurement import Environment, Replicate, Sample
from benchmarks.contracts.parity import LongParity, Parity
from benchmarks.contracts.profile import Profile


class Status(StrEnum):
    """The outcome of a measurement."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    """The case cannot run on this device or software; decided before it costs time."""
    OOM = "oom"
    """The batch does not fit. The batch is never made smaller in silence."""
    UNBUILDABLE = "unbuildable"
    """The commit cannot be built, so nothing ran; it says nothing of the commit's speed."""
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    PARITY_FAIL = "parity_fail"
    """It computes something else than fp32 eager training does, or NaN: how fast is no matter."""
    CRASHED = "crashed"
    """The child died by a signal."""
    GARBAGE = "garbage"
    """The child ended well but printed no Result."""
    TIMEOUT = "timeout"
    """The child hung or ran past the job's limit."""
    CANCELLED = "cancelled"
    INFRA_ERROR = "infra_error"


class Bottleneck(StrEnum):
    """The limit of a case's speed."""

    INPUT = "input"
    """Batches come too late, or cost the step too much."""
    OVERHEAD = "overhead"
    """The host queues work more slowly than the device does it."""
    COMMUNICATION = "communication"
    """The device waits for other devices."""
    COMPUTE = "compute"
    """Arithmetic: matrix products and convolutions at their peak rate."""
    MEMORY = "memory"
    """The bandwidth of the device's memory."""
    MIXED = "mixed"
    """The device, and neither arithmetic nor bandwidth alone."""
    LATENCY = "latency"
    """The start and end of kernels that are too small to fill the device."""
    DEVICE = "device"
    """The device, without a profile that tells more."""
    UNKNOWN = "unknown"


class Suggestion(values.Contract):
    """A value on an axis, or a change of the code, that may lift the limit; and its reason."""

    sentence: values.Line
    axis: values.Name | None = None
    """None for a change of the code."""
    value: values.Value | None = None
    speedup: values.Number | None = None
    """As measured on a neighbour in the matrix; None where none was."""


class Verdict(values.Contract):
    """The bottleneck of a model, with its evidence."""

    bottleneck: Bottleneck
    confidence: Literal["high", "low"]
    sentence: values.Line
    evidence: dict[values.Name, values.Number] = Field(default_factory=dict, max_length=100)
    bounds: dict[values.Name, values.Number] = Field(default_factory=dict, max_length=100)
    """Speed-up if a cause vanished, such as ``without_input_stall: 1.7``."""
    suggestions: tuple[Suggestion, ...] = Field(default=(), max_length=3)


class Rejected(values.Contract):
    """A replicate that was measured again, because the device protected itself meanwhile."""

    replicate: values.Count
    """Which one of the job, from 1."""
    reasons: tuple[values.Name, ...] = Field(max_length=100)
    """The flags that it was rejected for."""
    rate: values.Number
    """Items per second of its FULL pass, for the record."""


class TriedBatch(values.Contract):
    """A batch that fits, as the search of ``batch=fastest`` timed it."""

    batch: values.Count
    """Samples per step."""
    rate: values.Number
    """Items per second of a few eager steps, without the loader."""
    peak_memory_b: values.Count


class Result(values.Contract):
    """All that one job found out, in one document."""

    schema_version: Annotated[int, Field(strict=True, ge=1, le=1)] = 1
    case: Case
    """As measured: the preset resolved, the axes normalised."""
    status: Status
    reason: values.Line = ""
    """One sentence for a person when the status is not ok."""
    log_tail: values.Text = ""
    measured_at: values.Moment
    protocol: Protocol
    item: values.Line = "item"
    """What throughput counts: img, token ..."""
    batch_items: values.Count = 0
    """Items per optimizer step; where samples differ in length their mean, to a whole number."""
    padding: values.Share | None = None
    """Share of a step's input that fills up samples of different lengths; None of one length."""
    parameters: values.Count = 0
    environment: Environment
    samples: tuple[Sample, ...] = Field(default=(), max_length=200)
    replicates: tuple[Replicate, ...] = Field(default=(), max_length=50)
    rejected: tuple[Rejected, ...] = Field(default=(), max_length=150)
    canary: Canary | None = None
    """What the node could do when this was measured; None where no canary was taken."""
    verdict: Verdict | None = None
    parity: Parity | None = None
    """Whether the case computes what fp32 eager computes; None: nobody asked."""
    long_parity: LongParity | None = None
    efficiency: Efficiency | None = None
    trace_absent: values.Line = ""
    """Why there is no trace, where one was asked for."""
    flags: tuple[values.Name, ...] = Field(default=(), max_length=100)
    repro: values.Text = ""
    """The command that measures this case again."""
    startup: dict[values.Name, values.Seconds] = Field(default_factory=dict, max_length=20)
    """Seconds of each part of the start, before the first timed step: interpreter, import, device,
    model, settings, trainer, first_step, warmup."""
    batches_tried: tuple[TriedBatch, ...] = Field(default=(), max_length=32)
    """Batches that ``batch=fastest`` chose from, ascending; the chosen one is ``flag.batch``."""
    turns: tuple[Turn, ...] = Field(default=(), max_length=200)
    """Windows in turn with the other side of a pair; there are no replicates then."""
    baseline: Result | None = None
    """The other side of a pair, in the result of a job that measured both."""

    @property
    def profile(self) -> Profile:
        """The profile of the first process; an empty one where none was asked for."""
        first = self.replicates[0].profile if self.replicates else None
        return first or Profile()

    @model_validator(mode="after")
    def _a_baseline_has_none_itself(self) -> Self:
        if self.baseline is not None and self.baseline.baseline is not None:
            raise ValueError("a pair has two sides: its baseline has no baseline")
        return self

    @model_validator(mode="after")
    def _an_ok_result_has_numbers(self) -> Self:
        if self.status is Status.OK and not self.samples:
            raise ValueError("a result with status ok needs at least one sample")
        return self
