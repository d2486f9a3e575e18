"""Points that another tool measured, in one form whatever file they came from."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from benchmarks.contracts import Revision, Worded
from benchmarks.contracts.values import Contract, Direction, Line, Moment, Number


def _of_our_days(at: datetime) -> datetime:
    """Refuse a time that no database and no chart can hold."""
    if not 1990 <= at.year < 2200:
        raise ValueError("must lie between the years 1990 and 2200")
    return at


Dated = Annotated[Moment, AfterValidator(_of_our_days)]
Called = Annotated[
    str,
    Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$"),
    Worded(
        "must be text of 1 to 500 characters, not only blanks, on one line and without control "
        "characters"
    ),
]
"""A name that a page can show."""
Facts = Annotated[dict[Line, Line], Field(max_length=256)]


class ForeignPoint(Contract):
    """One benchmark, measured once at one revision, as its tool wrote it."""

    benchmark: Called
    """Its name at the source, with whatever groups and paths belong to it."""
    parameters: Facts = Field(default_factory=dict)
    """The arguments it ran with, each as the text that the tool wrote."""
    metric: Called
    unit: Line
    direction: Direction
    values: tuple[Number, ...] = Field(min_length=1, max_length=10_000)
    """Samples in the order of measuring, or the one figure that the tool kept, in ``unit``."""
    low: Number | None = None
    high: Number | None = None
    """The tool's own bounds of its figure; None where it has none."""
    revision: Revision | None = None
    """The commit; None where the format knows none, so that whoever imports must say it."""
    at: Dated | None = None
    """When it was measured."""
    committed_at: Dated | None = None
    """When the commit was made."""
    machine: Facts = Field(default_factory=dict)
    """What the tool says of the machine and its software."""

    @model_validator(mode="after")
    def _has_bounds_in_order(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low must not be above high")
        return self
