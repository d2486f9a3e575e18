"""The gate's decision: as it is stored, with statements, and as it is shown, with sentences."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from pydantic import FiniteFloat

from benchmarks.contracts import Direction, Id
from service.schemas.document import Document

S = TypeVar("S")
"""A sentence: its facts where it is stored, its words where it is shown."""


class Side(StrEnum):
    """One of the two revisions."""

    BASELINE = "baseline"
    CONTENDER = "contender"


class Outcome(StrEnum):
    """The outcome of a gate."""

    PASS = "pass"  # noqa: S105 - no secret
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


class Answer(StrEnum):
    """The answer that the pairs give so far."""

    DIFFERENT = "different"
    SAME = "same"
    UNKNOWN = "unknown"


class CaseVerdict(StrEnum):
    """The verdict on one case."""

    WORSE = "worse"
    """Surely worse than its limits allow: a regression."""
    BROKEN = "broken"
    """The contender cannot do what the baseline does: a regression."""
    PARITY = "parity"
    """The contender computes something else: a regression, however fast."""
    BETTER = "better"
    SAME = "same"
    ALLOWED = "allowed"
    """Surely worse, and its limit or a trade allows it."""
    NOT_WORSE = "not_worse"
    """Surely within what is allowed; whether equal or better is open."""
    UNSUPPORTED = "unsupported"
    """Neither revision supports it on this device; it neither passes nor fails."""
    UNBUILDABLE = "unbuildable"
    """A revision cannot be built: nothing is known of it."""
    UNCLEAR = "unclear"
    MISSING = "missing"
    FAILED = "failed"
    """It failed on the baseline, or on both sides, or only once."""
    FOREIGN = "foreign"
    """The two sides were not measured on the same device and data."""
    SAME_CODE = "same_code"
    """Both revisions ran the same code, or nobody knows which code ran."""
    DISTURBED = "disturbed"
    """Too few pairs were measured on an undisturbed device."""


class NoiseSource(StrEnum):
    """Source of the noise between pairs."""

    GATES = "gates"
    """Earlier gates of the case on the same kind of device."""
    SERIES = "series"
    """Processes of one night in the case's own history."""


REGRESSIONS = frozenset({CaseVerdict.WORSE, CaseVerdict.BROKEN, CaseVerdict.PARITY})
GOOD = frozenset({CaseVerdict.BETTER, CaseVerdict.SAME, CaseVerdict.ALLOWED, CaseVerdict.NOT_WORSE})


class MetricFinding(Document):
    """One metric of one case. Changes are shares of the baseline, signed so that + is better."""

    metric: str
    unit: str
    direction: Direction
    baseline: FiniteFloat
    contender: FiniteFloat
    """Geometric means over the pairs."""
    pairs: int
    change: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    """Holds over all looks except with the policy's ``false_pass``; a case passes on it."""
    strict_low: FiniteFloat
    strict_high: FiniteFloat
    """Holds over all looks, metrics and cases except with the policy's ``false_alarm``; a
    difference is called on it."""
    consistent: bool = True
    clock: FiniteFloat | None = None
    """Share by which the contender's clock was higher; ``change`` is at one clock then. None where
    it is as measured."""
    noise: FiniteFloat | None = None
    """Standard deviation between pairs, as a share, of what was compared."""
    noise_as_measured: FiniteFloat | None = None
    """The same as measured, where ``noise`` is at one clock."""


class CaseFinding(Document, Generic[S]):
    """The finding on one case, from its pairs."""

    case_key: str
    verdict: CaseVerdict
    answer: Answer
    """About the rule's first metric."""
    settled: bool
    """No further pair is needed."""
    pairs: int
    """Compared ones; a pair with a side that failed is none."""
    sentence: S
    metrics: tuple[MetricFinding, ...] = ()
    """The first is the one that the answer is about."""


class Used(Document):
    """One attempt that the decision rests on, or that gave it nothing."""

    case_key: str
    pair: int
    side: Side
    job_id: Id
    attempt: int | None
    worker: str | None
    device: str
    result_id: Id | None
    compared: bool
    """Whether its pair is one of those that were compared."""


class GateDecision(Document, Generic[S]):
    """The answer, what it rests on, and how often such an answer may be wrong."""

    outcome: Outcome
    sentence: S
    cases: tuple[CaseFinding[S], ...]
    warnings: tuple[S, ...] = ()
    used: tuple[Used, ...] = ()
    false_alarm: float
    false_pass: float


class CaseFindingView(CaseFinding[str]):
    """The finding on one case, in words."""


class CaseForecast(Document, Generic[S]):
    """Forecast of one case by its rule's first metric, before the first pair.

    None is what nobody knows yet.
    """

    case_key: str
    noise: FiniteFloat | None = None
    """Standard deviation between pairs, as a share."""
    known_by: NoiseSource | None = None
    pairs: FiniteFloat | None = None
    """Mean number until equal revisions are decided."""
    duration_s: FiniteFloat | None = None
    """Time that ``pairs`` take on an idle worker."""
    most_pairs: int
    """Pairs that the policy, or what the other cases leave of the budget, allows."""
    change: FiniteFloat
    """The change for the worse that the gate is to see: the limit and its margin."""
    chance: FiniteFloat | None = None
    """Power: the probability that a change of that size is called a regression in time."""
    reachable: FiniteFloat | None = None
    """Minimum detectable effect: the smallest change that is called one in 80 of 100 gates."""
    sentence: S


class DecisionView(GateDecision[str]):
    """A decision in words."""

    cases: tuple[CaseFindingView, ...]
