"""Findings, as the API answers with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Self

from service.schemas.document import Document
from service.schemas.series import SeriesName


class FindingState(StrEnum):
    """The state of a finding; only the first two ask for somebody's attention."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    EXPECTED = "expected"
    NOT_REPRODUCED = "not_reproduced"
    ENVIRONMENT = "environment"
    INFRASTRUCTURE = "infrastructure"
    WITHDRAWN = "withdrawn"


REFUTED = frozenset({FindingState.WITHDRAWN, FindingState.NOT_REPRODUCED})
"""States of what was never there."""


class Cause(StrEnum):
    """The cause of a change, which says who should look at it."""

    label: str
    when: str
    """When it is named."""

    def __new__(cls, value: str, label: str, when: str) -> Self:
        """A cause has its words in one place: here."""
        cause = str.__new__(cls, value)
        cause._value_, cause.label, cause.when = value, label, when
        return cause

    NODE = (
        "node",
        "one node, whatever it runs",
        "one machine is slow in everything, the same revision is fast on another, or another "
        "process used the device",
    )
    ENVIRONMENT = (
        "environment",
        "the environment: driver, library, kernel or setting",
        "a recorded fact has other values after the change than before",
    )
    INPUT = (
        "input",
        "the input pipeline",
        "at least half of the change goes away without the loader (FULL against SYNTH, process by "
        "process)",
    )
    CLOCKS = (
        "clocks",
        "clocks: heat or power",
        "a clock explains at least half of the change and at most twice of it",
    )
    CODE = (
        "code",
        "the code",
        "the revision differs, a machine measured both sides, and the known environment explains "
        "nothing",
    )
    UNKNOWN = (
        "unknown",
        "the data carry no cause",
        "none of the others holds, or too little data; lack of data never gives code",
    )


class Part(StrEnum):
    """The part of the analysis that evidence comes from."""

    ENVIRONMENT = "environment"
    INPUT = "input"
    CLOCKS = "clocks"
    COMPILE = "compile"
    PARITY = "parity"
    PHASES = "phases"
    """Every other metric, phase and reading."""
    REVISION = "revision"
    NODE = "node"
    FACTORS = "factors"


class State(StrEnum):
    """The state of one thing, as the data show it."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    """Shown to be the same, within a stated band; not merely not shown to differ."""
    UNCLEAR = "unclear"


class Strength(StrEnum):
    """The weight of evidence, which says how it may be used."""

    STRONG = "strong"
    """May carry a cause."""
    WEAK = "weak"
    """Goes along with a cause that something else carries."""


class FindingKind(StrEnum):
    """The subject of a finding."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    BAD_NODE = "bad_node"
    OVERTAKEN = "overtaken"
    """Another case is the fastest of its workload."""
    FAILURE = "failure"
    """Cases that gave results fail, all in one way."""


class Certainty(StrEnum):
    """The evidence that a finding rests on."""

    CONFIRMED = "confirmed"
    """Both revisions were measured again, beside each other."""
    STANDING = "standing"
    """The history alone: the new level has stood for several points."""


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
    headline: str
    """The sentence in under twelve words, for titles and messages."""
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
    """The largest effect among its series; None if no series moved."""
    hardware: tuple[str, ...]
    """The devices that it was seen on, as people call them."""
    share: float | None
    """How much slower than before a bad node is, or how much faster the case that overtook another;
    None for anything else."""
    project: str
    """Whose series it is about; empty: nobody's, or it is about a node."""


class EvidenceView(Document):
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


class AttributionView(Document):
    """The cause that a change is put down to, with its evidence."""

    cause: Cause
    sentence: str
    """For a person who has to act; each clause after the colon is what some evidence says."""
    evidence: tuple[EvidenceView, ...]
    """What may carry a cause, what else changed, what did not, what is not clear."""
    not_excluded: tuple[str, ...]
    """Other explanations that these data leave open, each one sentence."""


@dataclass(frozen=True, slots=True)
class FailedCase:
    """A case that a finding of the kind ``failure`` is about."""

    series: SeriesName
    """Of its throughput."""
    fails: bool
    """Whether its newest measurements fail so; else it is over for this case."""
    results: int
    """Failures since the finding's first bad revision."""
    workers: tuple[str, ...]
    first_revision: str
    first_result: str
    newest_revision: str
    newest_result: str
    reason: str
    """Of the newest failure, as the worker gave it."""


@dataclass(frozen=True, slots=True)
class NarrowedRange:
    """Two revisions between which a change lies."""

    last_good: str
    first_bad: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding with all that belongs to it."""

    summary: FindingSummary
    attribution: AttributionView | None
    series: tuple[AffectedSeries, ...]
    """The one that it was opened for, which the attribution is about, first."""
    events: tuple[FindingEventView, ...]
    narrowed: NarrowedRange | None = None
    """Place of the change by its history of now, if that is elsewhere than what was measured again
    side by side: idle workers measure the commits between."""
    failed: tuple[FailedCase, ...] = ()
    """The cases that a failure is about; empty for other kinds."""


class MorningReport(Document):
    """A summary of the findings that were opened lately."""

    since: datetime
    opened: list[FindingSummary]
    """Findings opened since then, the newest first; at most 500."""
    active: int
    """Findings, of any age, that ask for somebody's attention."""
    expected_false: float
    """How many of those opened are expected to be false; withdrawn and not reproduced ones are."""
