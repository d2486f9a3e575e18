"""Series with their points, and how two revisions differ in one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Case, Direction, Line, Name
from service.schemas.document import Document


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One counted result in one series; ``low`` and ``high`` bound its 95 % interval."""

    result_id: str
    revision: str
    revision_at: datetime
    measured_at: datetime
    value: float
    low: float | None
    high: float | None
    interval: str
    """``replicates``, ``within_run`` or ``none``: what the interval rests on. None of them
    holds what differs between nights and nodes."""
    replicates: int
    environment: str
    worker: str
    """Empty where the point was imported."""
    excluded: bool = False
    """Somebody took its result out, with a reason: shown, never analysed or compared."""
    disturbed: str = ""
    """The flags that say how its device was disturbed, such as ``throttled, device_busy``; empty if
    it was not. Shown, never analysed or compared."""
    within: float | None = None
    """Usual 95 % half-width within one of its processes, whatever the interval rests on."""

    @property
    def counts(self) -> bool:
        """Return True if the point is analysed and compared."""
        return not (self.excluded or self.disturbed)


class ImportedCase(Case):
    """A benchmark that another tool measured, in the place of a case.

    Its key begins with the source and a slash, which no key of a measured case can have.
    """

    source: Name
    """The tool, or where its numbers come from, as whoever imported them says."""
    workload: Line
    """The benchmark's name at the source."""
    preset: Literal[""] = ""
    axes: Annotated[dict[Line, Line], Field(max_length=256)] = Field(default_factory=dict)
    """The arguments it ran with."""

    @property
    def key(self) -> str:
        """One line that names it, such as ``asv/sort.TimeSuite.time_sort n=1000``."""
        settings = "".join(f" {name}={value}" for name, value in sorted(self.axes.items()))
        return f"{self.source}/{self.workload}{settings}"


@dataclass(frozen=True, slots=True)
class SeriesName:
    """The identity of a series, without its points."""

    id: str
    case: Case | ImportedCase
    metric: str
    unit: str
    direction: Direction
    comparability: dict[str, str]
    project: str = ""
    """Empty: it belongs to none."""

    @property
    def source(self) -> str:
        """The tool that measured it elsewhere; empty if it is measured here."""
        return self.case.source if isinstance(self.case, ImportedCase) else ""

    @property
    def is_watched(self) -> bool:
        """Whether its changes become findings: every imported metric is watched."""
        return bool(self.source) or metric(self.metric).is_watched


@dataclass(frozen=True, slots=True)
class Series(SeriesName):
    """The history of one metric of one case on comparable hardware.

    ``points`` are ordered by revision, then by time of measurement, never by arrival.
    """

    points: tuple[SeriesPoint, ...] = ()

    @classmethod
    def of(cls, name: SeriesName, points: Iterable[SeriesPoint] = ()) -> Self:
        """Make a series of its name and some of its points."""
        identity = {one.name: getattr(name, one.name) for one in fields(SeriesName)}
        return cls(**identity, points=tuple(points))


class ChangeVerdict(StrEnum):
    """The verdict that the intervals allow."""

    FASTER = "faster"
    SLOWER = "slower"
    UNCLEAR = "unclear"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Contender over baseline, with its 95 % interval where both have one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RevisionChange:
    """The change of one case on one kind of hardware from one revision to another."""

    case: Case | ImportedCase
    metric: str
    unit: str
    direction: Direction
    comparability: dict[str, str]
    series_id: str | None
    baseline: SeriesPoint | None
    contender: SeriesPoint | None
    change: float | None
    """Ratio minus one, signed so that more than zero is better."""
    change_low: float | None
    """95 % interval: for another process, and for another night or node unless ``left_out``."""
    change_high: float | None
    verdict: ChangeVerdict
    note: str
    """Why the verdict is not clearer, or what it rests on; empty if it is clear."""
    project: str = ""
    """Whose history it is; empty: it belongs to none."""
    undecided: bool = False
    """Whether a slowdown is possible that nobody has looked for well enough."""
    left_out: str = ""
    """What differs between both and is not in the interval, because the history does not know it:
    ``night``, ``node`` or both."""


class Changes(Document):
    """The change of each case from one revision to another."""

    baseline: str
    contender: str
    suite: str | None
    metric: str
    changes: list[RevisionChange]
