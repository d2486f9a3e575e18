"""The comparison of a case with the fp32 reference."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from benchmarks.contracts.values import (
    Contract,
    Count,
    Flag,
    Line,
    Name,
    Number,
    Seconds,
    Share,
    Trace,
)


class ParityStatus(StrEnum):
    """The outcome of the comparison of a case with the reference."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    """It computes something else, or NaN: its speed is no speed of this model."""
    NONDETERMINISTIC = "nondeterministic"
    """Two runs of the reference differ, and this case agrees only within three times their
    distance."""
    SKIPPED = "skipped"
    """Not compared; the reason says why. Nothing is known, for or against."""


class Agreement(Contract):
    """The distance of one quantity from the reference, and the distance allowed."""

    quantity: Name
    """loss_1, gradient_norm_5, update_direction ..."""
    error: Number
    """Of the case against the fp32 reference: relative, or one minus the cosine."""
    base_error: Number
    """The same of the eager case in this case's precision: what the precision alone costs."""
    allowed: Number

    @property
    def holds(self) -> bool:
        """Return True if the case is near enough to the reference."""
        return self.error <= self.allowed


class Parity(Contract):
    """A case held against fp32 eager training over some steps; see docs/parity.md."""

    status: ParityStatus
    reason: Line = ""
    """One sentence, unless it passed."""
    steps: Count = 0
    agreements: tuple[Agreement, ...] = Field(default=(), max_length=50)
    scaler_skips: Count = 0
    """Steps that the gradient scaler left out for a gradient that was not finite."""
    losses: dict[Literal["case", "base", "reference"], Trace] = Field(default_factory=dict)
    """The loss of each step; raw, and not finite where the model was not."""
    s: Seconds = 0.0
    """What the comparison cost in this process."""
    reference_cached: Flag = False
    """Whether the reference had been computed before, by another process."""


class LongParityStatus(StrEnum):
    """The outcome of the comparison of loss curves."""

    NO_WORSE = "no_worse"
    """Surely not above the reference by more than the margin."""
    WORSE = "worse"
    """Surely above it by more than the margin, or not finite: its speed is no speed of this
    training."""
    UNDECIDED = "undecided"
    """Neither is sure: the seeds differ too much."""
    SKIPPED = "skipped"
    """Not compared; the reason says why."""


class LongParity(Contract):
    """Loss curves of a case and of fp32 eager training, in pairs of one seed; losses in the loss's
    own unit."""

    status: LongParityStatus
    reason: Line = ""
    """The outcome in one or two sentences."""
    steps: Count = 0
    batch: Count = 0
    """Samples per step of both, which may be fewer than were timed."""
    difference: Number = 0.0
    """End loss of the case less that of the reference, as a mean over the seeds."""
    low: Number = 0.0
    """Bounds on it, each of 95 % confidence over all looks."""
    high: Number = 0.0
    margin: Number = 0.0
    """The most by which the case may be above."""
    power: Share = 0.0
    """Chance that equal training would be told ``no_worse``."""
    parts_at: Count = 0
    """Step from which the case is surely above to the end; 0: at none."""
    case: tuple[Trace, ...] = Field(default=(), max_length=12)
    """The loss of each step, a trace for each seed."""
    reference: tuple[Trace, ...] = Field(default=(), max_length=12)
    s: Seconds = 0.0
