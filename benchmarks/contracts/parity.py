"""The comparison of a case with the fp32 reference."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from benchmarks.contracts.values import Contract, Count, Flag, Line, Name, Number, Seconds, Trace


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
    """A case held against fp32 eager training over some steps; see docs/profile.md."""

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
