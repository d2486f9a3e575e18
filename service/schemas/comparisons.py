"""The request for a comparison, and a comparison, as the API takes and answers them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, FiniteFloat, model_validator

from benchmarks import contracts
from service.schemas.document import Document
from service.schemas.gate import CaseForecast, DecisionView, Outcome
from service.schemas.jobs import Source
from service.schemas.policy import Policy
from service.schemas.pull_requests import PullRequest


class ComparisonState(StrEnum):
    """The state of a comparison; the last two are final."""

    RUNNING = "running"
    DECIDED = "decided"
    CANCELLED = "cancelled"


class ComparisonRequest(contracts.Contract):
    """A baseline and a contender, to be measured in turn until a decision stands; each case on one
    device."""

    baseline: contracts.Revision
    contender: contracts.Revision
    suite: contracts.Name | None = None
    case: contracts.Case | None = None
    cases: Annotated[tuple[contracts.Case, ...], Field(max_length=100)] = ()
    policy: Policy = Policy()
    budget_s: Annotated[FiniteFloat, Field(strict=True, ge=1, le=7 * 86_400)] = 1_200.0
    """Wall clock from the start, waiting included; what is open then is inconclusive."""
    requires: contracts.Labels = Field(default_factory=dict)
    """Labels that the worker must have."""
    worker: contracts.Name | None = None
    """The worker that measures all; without it one that is there and has little to do, and for more
    cases idle ones with such a GPU."""
    avoid: Annotated[tuple[contracts.Name, ...], Field(max_length=100)] = ()
    """Workers that must not be chosen."""
    protocol: contracts.Protocol | None = None
    """How to measure; without it the suite's way, or the default. Always one process a job."""
    duet: contracts.Flag = True
    """Measure both sides in turn within one job, where the limits allow it; else one process after
    the other, each with the device to itself."""
    probe: Annotated[int, Field(strict=True, ge=0, le=100_000)] | None = None
    """The number of a bisection's probe: one pair is measured, and it decides nothing by itself.
    Odd ones begin with the contender."""
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] = 10
    """Before the history's jobs, which can wait: somebody waits for this one."""
    timeout_s: Annotated[FiniteFloat, Field(strict=True, gt=0, le=86_400)] = 1_800.0
    """Of one process."""
    source: Source = "api"
    """Who asked: ``api``, ``gate``, or what a part of the service calls itself."""
    project: contracts.Name | None = None
    """Whose it is; without it that of the token, or none."""
    pull_request: PullRequest | None = None
    """The pull request that is told of it, where a sink may write to its repository."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if [self.suite is not None, self.case is not None, bool(self.cases)].count(True) != 1:
            raise ValueError("name exactly one of suite, case and cases")
        return self


class ComparisonSummary(Document):
    """A comparison as a list shows it."""

    id: str
    state: ComparisonState
    outcome: Outcome | None
    """None until it is decided."""
    baseline: str
    contender: str
    suite: str | None
    project: str
    """Empty: it belongs to none."""
    source: str
    created_at: datetime
    ends_at: datetime
    """When the budget is spent."""
    decided_at: datetime | None


class ComparisonView(ComparisonSummary):
    """A comparison, what it asks, and where it stands."""

    request: ComparisonRequest
    worker: str | None
    """Both sides are pinned to it; None until one is chosen."""
    workers: tuple[str, ...] = ()
    """It, and the others with such a GPU that measure some of the cases."""
    rounds: int
    """Rounds of pairs that were submitted."""
    jobs: int
    jobs_ended: int
    note: str
    """What it waits for, or why it was cancelled; empty if there is nothing to say."""
    decision: DecisionView | None
    """The decision, once it stands: ``state`` is ``decided``."""
    so_far: DecisionView
    """What the pairs say by now; the same as ``decision`` once that stands."""
    forecast: tuple[CaseForecast[str], ...] = ()
    """Forecast of each case while the comparison runs; empty afterwards."""
    page: str
    """Address of its page on the dashboard."""
