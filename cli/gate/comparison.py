"""The service's answers about a comparison; what is not needed here is ignored."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime

from benchmarks.contracts import Id
from cli.answers import Answer
from service.wording import formats


class Outcome(StrEnum):
    """The outcome of a gate."""

    PASS = "pass"  # noqa: S105 - no secret
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


class MetricFinding(Answer):
    """One metric of one case; changes are signed so that + is better."""

    metric: str
    unit: str
    direction: str
    baseline: float
    contender: float
    pairs: int
    change: float
    low: float
    high: float

    @property
    def shown(self) -> tuple[str, str]:
        """The change and its interval as people read them, signed as measured."""
        more = self.direction == "higher"
        return formats.as_measured(self.change, self.low, self.high, more_is_better=more)


class CaseFinding(Answer):
    """The finding on one case."""

    case_key: str
    verdict: str
    settled: bool
    pairs: int
    sentence: str
    metrics: tuple[MetricFinding, ...] = ()


class Used(Answer):
    """One attempt that was used."""

    case_key: str
    pair: int
    side: str
    job_id: Id
    attempt: int | None
    worker: str | None
    device: str
    result_id: Id | None
    compared: bool


class Decision(Answer):
    """The answer and what it rests on."""

    outcome: Outcome
    sentence: str
    cases: tuple[CaseFinding, ...]
    warnings: tuple[str, ...] = ()
    used: tuple[Used, ...] = ()
    false_alarm: float
    false_pass: float


class ComparisonAnswer(Answer):
    """A comparison and where it stands."""

    id: Id
    state: str
    baseline: str
    contender: str
    created_at: AwareDatetime
    ends_at: AwareDatetime
    decided_at: AwareDatetime | None
    worker: str | None
    jobs: int
    jobs_ended: int
    note: str
    decision: Decision | None
    so_far: Decision
    page: str
