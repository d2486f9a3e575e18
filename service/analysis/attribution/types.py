"""The questions and the answers of attribution: frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from benchmarks.contracts import Case, Direction, Result, Status
from service.analysis.statement import Statement
from service.schemas.findings import Cause, Part, State, Strength


class Surrounded(Protocol):
    """Whatever came from a worker in some environment: a measurement, or a failure."""

    @property
    def worker(self) -> str:
        """Name of the worker that measured."""

    @property
    def facts(self) -> Mapping[str, str]:
        """The environment."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One counted result of the series in question, and where it came from."""

    revision: str
    worker: str
    result: Result

    @property
    def facts(self) -> Mapping[str, str]:
        """The environment that it was measured in."""
        return self.result.environment.facts


@dataclass(frozen=True, slots=True)
class Cell:
    """A case on one kind of hardware."""

    case: Case
    hardware: str = ""
    """As people call it."""

    @property
    def key(self) -> tuple[str, str]:
        """Its name."""
        return self.case.key, self.hardware

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class Moved:
    """A cell whose series of the same metric changed at the same point."""

    cell: Cell
    effect: float
    """Change as a share of its old level, signed as the metric is: -0.02 is two per cent less."""
    low: float | None = None
    high: float | None = None
    """95 % interval of ``effect``; None if it is not known."""

    def is_alike(self, effect: float) -> bool:
        """Return True if the change may be as large as ``effect``."""
        return self.low is not None and self.high is not None and self.low <= effect <= self.high


@dataclass(frozen=True, slots=True)
class Residual:
    """The distance of one result of any series from the value expected of it, in logs."""

    series: str
    revision: str
    worker: str
    measured_at: datetime
    log_residual: float
    """ln(value / level) where lower is better, ln(level / value) where higher is: more than zero is
    worse, whatever the metric. ``level`` is the one before the change in question, with the
    worker's lasting offset taken out."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.log_residual):
            raise ValueError("a residual must be a finite number")


@dataclass(frozen=True, slots=True)
class Question:
    """One change of one series, and all that is known around it.

    ``before`` and ``after`` are sides of the *level*, not of the revision: a re-run of the last
    good revision that came out at the new level belongs to ``after``, and then it clears the code;
    one that came out at the old level belongs to ``before``, and then it clears the environment
    that it shares with ``after``. Their order says nothing. A handful on each side is enough.

    Raises:
        ValueError: the effect is zero or not finite, or a measurement is of another case or failed.
    """

    case: Case
    metric: str
    unit: str
    direction: Direction
    effect: float
    """Change as a share of the old level, signed as the metric is (`detection.ChangePoint`)."""
    effect_low: float | None
    effect_high: float | None
    last_good: str
    """Revision of the last point of the old level."""
    first_bad: str
    """Revision of the first point of the new level, also where the new level is better."""
    before: tuple[Measurement, ...]
    after: tuple[Measurement, ...]
    moved: tuple[Moved, ...] = ()
    """Other cells that changed at the same point in the same metric."""
    unmoved: tuple[Cell, ...] = ()
    """Cells that were measured on both sides of this point and did not change."""
    unclear: tuple[Cell, ...] = ()
    """Those that do not tell: they are noisy there, or moved by another cause as well."""
    author: str = ""
    """Author of ``first_bad``; empty if unknown."""
    title: str = ""
    """First line of its commit message; empty if unknown."""
    gradual: bool = False
    """Whether the change is a drift over several revisions, not a step."""
    hardware: str = ""
    also_on: frozenset[str] = frozenset()
    """Other workers on which other cells moved."""
    source: str = ""
    """The tool whose numbers were imported; empty if they were measured here."""
    confirmed: bool = False
    """True if reruns showed the change."""
    compared: bool = False
    """True if both revisions were rerun, and differed."""
    residuals: tuple[Residual, ...] = ()
    """Of all series on comparable hardware, from ``first_bad`` on."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.effect) or self.effect == 0:
            raise ValueError("a change has an effect: a finite share of the old level, not zero")
        if any(run.result.case != self.case for run in (*self.before, *self.after)):
            raise ValueError("a measurement of another case cannot explain this one")
        if any(run.result.status is not Status.OK for run in (*self.before, *self.after)):
            raise ValueError("a measurement that failed is at no level")

    @property
    def seen_on(self) -> tuple[str, ...]:
        """The workers that show the new level, in this cell or in others."""
        return tuple(sorted({run.worker for run in self.after} | self.also_on))

    @property
    def cell(self) -> Cell:
        """The case that changed, and its hardware."""
        return Cell(self.case, self.hardware)

    @property
    def improvement(self) -> bool:
        """Return True if the new level is better."""
        return (self.effect > 0) == (self.direction is Direction.HIGHER)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was looked at, and what it says."""

    part: Part
    name: str
    """A fact, a metric, a reading, a worker, a condition."""
    state: State
    strength: Strength
    says: Statement
    """Half a sentence for a person, such as ``driver 550 -> 560``."""
    before: str | float | None = None
    after: str | float | None = None
    unit: str = ""
    change: float | None = None
    """Relative for amounts, a difference for shares and counts."""
    low: float | None = None
    high: float | None = None
    """99 % interval of ``change``, from the spread between processes; None if it is not known."""

    @property
    def carries(self) -> bool:
        """Return True if it may carry a cause by itself."""
        return self.state is State.CHANGED and self.strength is Strength.STRONG


@dataclass(frozen=True, slots=True)
class Attribution:
    """The cause that a change is put down to, with its evidence."""

    cause: Cause
    says: Statement
    """For a person who has to act; each reason in it is what some evidence says."""
    evidence: tuple[Evidence, ...]
    """What may carry a cause, what else changed, what did not, what is not clear; in the order of
    `Part` within each."""
    not_excluded: tuple[Statement, ...]
    """Other explanations that these data leave open, each one sentence."""
