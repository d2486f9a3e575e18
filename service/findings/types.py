"""Findings as they are read: frozen values, free of the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from pydantic import BaseModel

from service.analysis.attribution import Cause, Part, State, Strength
from service.history.series_history import PlacedChange
from service.history.types import SeriesName
from service.models import FindingState


class FindingKind(StrEnum):
    """The subject of a finding."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    BAD_NODE = "bad_node"


class Certainty(StrEnum):
    """The evidence that a finding rests on."""

    CONFIRMED = "confirmed"
    """Both revisions were measured again, beside each other."""
    STANDING = "standing"
    """The history alone: the new level has stood for several points."""


ACTIVE = frozenset({FindingState.OPEN, FindingState.ACKNOWLEDGED})
"""States that ask for somebody's attention."""
REFUTED = frozenset({FindingState.WITHDRAWN, FindingState.NOT_REPRODUCED})
"""States of what was never there."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that no finding is about yet."""

    series: SeriesName
    placed: PlacedChange
    rank: int
    """Place of its first bad revision among those of the history."""
    doubt: float
    """Probability that there is no such change."""
    certainty: Certainty = Certainty.STANDING
    not_reproduced: bool = False
    """Whether it was measured again, and was not there."""
    back: PlacedChange | None = None
    """What takes it back, if that is known as soon as the change itself."""

    @property
    def kind(self) -> FindingKind:
        """The kind of finding that it would be: for better or for worse."""
        return FindingKind.IMPROVEMENT if self.placed.change.improvement else FindingKind.REGRESSION


@dataclass(frozen=True, slots=True)
class Remeasured:
    """Results, by id, that were measured for a change: at the old level and at the new one."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


NOTHING = Remeasured()


@dataclass(frozen=True, slots=True)
class PendingShift:
    """A change that was confirmed before the history alone shows it."""

    index: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class AlreadyReported:
    """The changes of a series that its findings cover already."""

    changes: frozenset[str] = frozenset()
    """Ids of changes that findings are about, or that end them."""
    shifts: tuple[PendingShift, ...] = ()
    """Changes that are known and not in the analysis yet."""
    wanted: frozenset[str] = frozenset()
    """Ids of changes whose new level was declared the baseline: to leave it is news."""


@dataclass(frozen=True, slots=True)
class AffectedSeries:
    """A series that a finding is about, and how far it moved."""

    series: SeriesName
    effect: float
    """As a share of the level before, signed as measured."""
    effect_low: float
    effect_high: float
    before: float
    after: float
    doubt: float
    first_bad_at: datetime
    """Place of the first point of the new level in the order of revisions."""
    first_bad_result: str
    ended: str
    """Empty while the change stands; ``recovered`` or ``gone`` afterwards."""
    ended_at: datetime | None
    """Place in the order of revisions from which on it is recovered."""


@dataclass(frozen=True, slots=True)
class FindingEventView:
    """Something that was done with a finding."""

    at: datetime
    actor: str
    action: str
    detail: str


@dataclass(frozen=True, slots=True)
class FindingSummary:
    """A finding as a list shows it."""

    id: str
    kind: FindingKind
    state: FindingState
    cause: str
    certainty: Certainty
    sentence: str
    last_good: str | None
    first_bad: str
    first_bad_at: datetime
    comparability: dict[str, str]
    worker: str | None
    owner: str
    note: str
    due_on: date | None
    opened_at: datetime
    closed_at: datetime | None
    version: int
    """Say it when you change the finding: if somebody was faster, you are told."""
    series_count: int
    worst_effect: float | None
    """The largest effect among its series; None for a bad node."""
    share: float | None
    """How much slower than before a bad node is; None for anything else."""
    project: str
    """Whose series it is about; empty: nobody's, or it is about a node."""


class EvidenceView(BaseModel):
    """One thing that was looked at, and what it says."""

    part: Part
    name: str
    """A fact, a metric, a reading, a worker, a condition."""
    state: State
    strength: Strength
    says: str
    """Half a sentence for a person, such as ``driver 550 -> 560``."""
    before: str | float | None
    after: str | float | None
    unit: str
    change: float | None
    """Relative for amounts, a difference for shares and counts."""
    low: float | None
    high: float | None
    """99 % interval of ``change``, from the spread between processes; None if it is not known."""


class AttributionView(BaseModel):
    """The cause that a change is put down to, with its evidence."""

    cause: Cause
    sentence: str
    """For a person who has to act; each clause after the colon is what some evidence says."""
    evidence: tuple[EvidenceView, ...]
    """What may carry a cause, what else changed, what did not, what is not clear."""
    not_excluded: tuple[str, ...]
    """Other explanations that these data leave open, each one sentence."""


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding with all that belongs to it."""

    summary: FindingSummary
    attribution: AttributionView | None
    series: tuple[AffectedSeries, ...]
    """The one that it was opened for, which the attribution is about, first."""
    events: tuple[FindingEventView, ...]
