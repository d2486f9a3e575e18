"""Points that another tool measured, in one form whatever file they came from."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from benchmarks.contracts import Revision
from benchmarks.contracts.values import Contract, Direction, Line, Moment, Number

Facts = Annotated[dict[Line, Line], Field(max_length=256)]


class ForeignPoint(Contract):
    """One benchmark, measured once at one revision, as its tool wrote it."""

    benchmark: Annotated[Line, Field(min_length=1)]
    """Its name at the source, with whatever groups and paths belong to it."""
    parameters: Facts = Field(default_factory=dict)
    """The arguments it ran with, each as the text that the tool wrote."""
    metric: Annotated[Line, Field(min_length=1)]
    unit: Line
    direction: Direction
    values: tuple[Number, ...] = Field(min_length=1, max_length=10_000)
    """Samples in the order of measuring, or the one figure that the tool kept, in ``unit``."""
    low: Number | None = None
    high: Number | None = None
    """The tool's own bounds of its figure; None where it has none."""
    revision: Revision | None = None
    """The commit; None where the format knows none, so that whoever imports must say it."""
    at: Moment | None = None
    """When it was measured."""
    committed_at: Moment | None = None
    """When the commit was made."""
    machine: Facts = Field(default_factory=dict)
    """What the tool says of the machine and its software."""

    @model_validator(mode="after")
    def _has_bounds_in_order(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low must not be above high")
        return self
