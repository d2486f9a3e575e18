"""The memory of a device over one step, and at its peak by category and source line."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from benchmarks.contracts.values import Contract, Count, Line, Name, Seconds

MOST_POINTS = 200
"""Instants of a curve."""
Curve = Annotated[tuple[Count, ...], Field(max_length=MOST_POINTS)]
"""Bytes at each instant."""


class MemoryLine(Contract):
    """Bytes alive at the peak that one source line allocated."""

    source: Line
    """``file:line``."""
    category: Name
    size_b: Count
    blocks: Count


class Memory(Contract):
    """The allocator's own record of one step after the timed passes.

    Sizes are those that were asked for; the allocator rounds them up.
    """

    device_b: Count
    """Memory of the device."""
    peak_b: Count
    """Most bytes alive at once."""
    peak_at_s: Seconds
    """Time of the peak since the step began, by the host that queues the work."""
    reserved_b: Count
    """Bytes that the allocator held at the peak."""
    categories: dict[Name, Count] = Field(default_factory=dict, max_length=20)
    """Bytes at the peak: parameters (with buffers), optimizer, gradients, inputs, activations,
    temporaries, workspace, graphs (private pools, whole), kept (alive before or after the step)."""
    lines: tuple[MemoryLine, ...] = Field(default=(), max_length=50)
    """The largest ones, largest first. What no Python code allocated has none, as most of an eager
    backward pass."""
    pools_b: tuple[Count, ...] = Field(default=(), max_length=100)
    """Sizes of the private pools of CUDA graphs."""
    phases_s: dict[Name, Seconds] = Field(default_factory=dict, max_length=20)
    """Time at which each phase first began; none in a step that is one CUDA graph."""
    at_s: Annotated[tuple[Seconds, ...], Field(max_length=MOST_POINTS)] = ()
    """Instants of the curves: the fullest one of each part of the step."""
    alive_b: dict[Name, Curve] = Field(default_factory=dict, max_length=20)
    """Bytes alive at each instant, by category."""
    held_b: Curve = ()
    """Bytes that the allocator held at each instant."""

    @property
    def unused_b(self) -> int:
        """Bytes at the peak that the allocator held and nothing used: rounding, fragments."""
        return max(0, self.reserved_b - self.peak_b)

    @property
    def fragmentation(self) -> float:
        """Share of the bytes held at the peak that nothing used."""
        return self.unused_b / self.reserved_b if self.reserved_b else 0.0

    @model_validator(mode="after")
    def _has_a_value_for_each_instant(self) -> Self:
        curves = (self.held_b, *self.alive_b.values())
        if any(len(curve) != len(self.at_s) for curve in curves):
            raise ValueError("a curve needs one value for each instant")
        return self
