"""A format: how it is recognised, read and written, and what it loses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Protocol

from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint


class Loss(StrEnum):
    """A part of a point that a format has no place for."""

    PARAMETERS = "parameters"
    """They stand inside the benchmark's name."""
    METRIC = "metric"
    """It has one name for all that is measured."""
    UNIT = "unit"
    DIRECTION = "direction"
    """It is guessed from the metric and its unit."""
    SAMPLES = "samples"
    """One figure is left of them."""
    BOUNDS = "bounds"
    REVISION = "revision"
    TIME = "time"
    COMMIT_TIME = "commit time"
    MACHINE = "machine"


class Reader(Protocol):
    """A module that reads one format."""

    def recognises(self, source: Source) -> bool:
        """True where the content is of this format."""

    def read(self, source: Source) -> Iterator[ForeignPoint]:
        """Give the points in their order."""


@dataclass(frozen=True)
class Format:
    """One format by the name that ``--format`` takes."""

    name: str
    title: str
    mark: str
    """How it is recognised, in words."""
    reader: Reader
    silent: frozenset[Loss] = frozenset()
    """What its own tool's files cannot say."""
    writer: Callable[[Sequence[ForeignPoint], BinaryIO], None] | None = None
    loses: frozenset[Loss] = frozenset()
    """What is lost of a point that is written in it."""


@dataclass(frozen=True)
class FormatRead:
    """The points of a file, and what to know about them."""

    points: tuple[ForeignPoint, ...]
    format: str
    losses: tuple[Loss, ...]
    """What the format cannot say, in the order of `Loss`."""
    notes: tuple[str, ...]
    """A clause for each kind of thing that gave no point, or was thinned."""


@dataclass(frozen=True)
class Reading:
    """The points of a file that is being read."""

    points: Iterator[ForeignPoint]
    format: str
    losses: tuple[Loss, ...]
    source: Source

    @property
    def notes(self) -> tuple[str, ...]:
        """Counts of what gave no point, or was thinned, so far."""
        return self.source.notes
