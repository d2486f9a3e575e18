"""A bisection, as the API takes and answers it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, FiniteFloat, model_validator

from benchmarks import contracts
from service.schemas.document import Document
from service.schemas.jobs import Source
from service.schemas.policy import THROUGHPUT


class BisectionState(StrEnum):
    """The state of a bisection; the last two are final."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class BisectionStage(StrEnum):
    """What a bisection does now."""

    COMMITS = "listing_commits"
    """Waits until a worker has listed the commits between the ends."""
    ENDS = "verifying_ends"
    SEARCH = "searching"
    CULPRIT = "verifying_culprit"
    REST = "searching_rest"
    """A culprit is verified, and did not make the whole change."""
    DONE = "done"


class BisectionOutcome(StrEnum):
    """How a bisection ended."""

    CULPRIT = "culprit"
    """One commit changed it, verified beside its parent."""
    RANGE = "range"
    """One of several commits did; those between cannot be measured."""
    ENVIRONMENT = "environment"
    """The ends do not differ when measured today."""
    NOT_REPRODUCED = "not_reproduced"
    """The ends do not differ, and both are as fast as the finding's good level."""
    UNDECIDED = "undecided"
    """The budget ended, or nothing could be measured."""


BLAMED = (BisectionOutcome.CULPRIT, BisectionOutcome.RANGE)
"""Outcomes that name a commit, or several."""


class RangeCommit(contracts.Contract):
    """One commit of the range."""

    revision: contracts.Revision
    author: contracts.Line = ""
    title: contracts.Line = ""


class BisectionRequest(contracts.Contract):
    """What lies between a good end and a bad end, to be bisected in one case or for a finding."""

    commits: Annotated[tuple[RangeCommit, ...], Field(max_length=contracts.MOST_COMMITS + 1)] = ()
    """Along first parents, the oldest first: the good end, and each commit after it. Without them a
    worker that builds both ends lists what lies between."""
    ends: contracts.CommitRange | None = None
    """Both ends, where no finding and no commits tell them."""
    finding: contracts.Id | None = None
    """What to explain; it tells the case, the metric, and how large the change is."""
    case: contracts.Case | None = None
    """The case, where no finding tells it; the bad end is then worse."""
    metric: contracts.Name = THROUGHPUT
    """The metric, where no finding tells it."""
    most_processes: Annotated[int, Field(strict=True, ge=6, le=1_000)] = 80
    """The budget: two for each pair. What is open then is undecided."""
    requires: contracts.Labels = Field(default_factory=dict)
    """Labels that the worker must have."""
    worker: contracts.Name | None = None
    """The worker that measures all pairs; without it one that is there and has little to do."""
    protocol: contracts.Protocol | None = None
    """How to measure; without it as the finding's result was, or the default. Timing alone."""
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] = 5
    """Before the history's jobs, and after those of gates."""
    timeout_s: Annotated[FiniteFloat, Field(strict=True, gt=0, le=86_400)] = 1_800.0
    """Of one pair."""
    source: Source = "api"
    project: contracts.Name | None = None
    """Whose it is; without it that of the token, or none."""

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if (self.finding is None) == (self.case is None):
            raise ValueError("name either a finding or a case")
        if len(self.commits) == 1 or not (self.finding or self.commits or self.ends):
            raise ValueError("name at least 2 commits: the good end and the bad one")
        if self.ends is not None and (self.finding or self.commits):
            raise ValueError("a finding, or the commits, tell the ends: leave them out")
        if len({one.revision for one in self.commits}) < len(self.commits):
            raise ValueError("a commit stands twice in the range; name each once")
        return self


class BisectedCommit(Document):
    """One commit of a bisection, with what is known of it."""

    place: int
    """From the good end, which is 0."""
    revision: str
    author: str
    title: str
    probability: float
    """That this commit changed it."""
    usable: bool
    """False once it could not be built or run."""


class OtherCulprit(Document):
    """A commit, or a range, that made a part of what the largest culprit left of the change."""

    first: int
    """Place of its first commit."""
    last: int
    """Place of its last one."""
    probability: float
    share: float
    """Share of the whole change that it shows beside its parent."""


class ProbeView(Document):
    """One pair: a commit beside an earlier one."""

    number: int
    commit: int
    """Place of the commit."""
    beside: int
    """Place of the earlier one."""
    difference: float | None
    """How much worse the commit was, as a share; below zero: better. None: nothing measured."""
    unusable: int | None
    """Place of the commit that could not be built or run."""
    comparison: str | None
    """The comparison whose only pair it is; None where no worker had the commit."""
    job_id: str | None
    under_way: bool
    note: str
    """Why nothing was measured; empty if something was."""


class BisectionSummary(Document):
    """A bisection as a list shows it."""

    id: str
    state: BisectionState
    stage: BisectionStage
    outcome: BisectionOutcome | None
    """None until it is done."""
    sentence: str
    good: str
    bad: str
    case_key: str
    metric: str
    finding: str | None
    project: str
    """Empty: it belongs to none."""
    source: str
    created_at: datetime
    decided_at: datetime | None


class BisectionView(BisectionSummary):
    """A bisection with its commits, its probes, and what is next."""

    probability: float
    """Of the outcome; while it runs, and where it is undecided, of the leading commits."""
    environment: float
    """Probability that no commit changed it."""
    first: int | None
    """Place of the first commit that is named; None if none is."""
    last: int | None
    """Place of the last one; the same where one commit is named."""
    share: float | None
    """Share of the whole change that the culprit shows beside its parent."""
    others: tuple[OtherCulprit, ...]
    """Further culprits, which made what is left, the largest first."""
    processes: int
    most_processes: int
    worker: str | None
    requires: dict[str, str]
    """Labels that the worker must have."""
    commits: tuple[BisectedCommit, ...]
    """The good end first."""
    probes: tuple[ProbeView, ...]
    next: str
    """What is measured now or next; empty once it is over."""
    note: str
    """What it waits for, why it ended without an answer, or which packages the culprit moved; empty
    if there is nothing to say."""
    page: str
    """Address of its page on the dashboard."""
