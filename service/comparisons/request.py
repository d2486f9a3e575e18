"""The request for a comparison: what is to be compared, and how long it may take."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, FiniteFloat, model_validator

from benchmarks.contracts import Case, Contract, JobSpec, Labels, Name, Protocol, Purpose, Revision
from service.analysis.gate import Policy
from service.jobs.expand import expand
from service.jobs.requests import Source, SubmissionRequest


class ComparisonRequest(Contract):
    """A baseline and a contender, to be measured in turn on one device until a decision stands."""

    baseline: Revision
    contender: Revision
    suite: Name | None = None
    case: Case | None = None
    cases: Annotated[tuple[Case, ...], Field(max_length=100)] = ()
    policy: Policy = Policy()
    budget_s: Annotated[FiniteFloat, Field(strict=True, ge=1, le=7 * 86_400)] = 900.0
    """Wall clock from the start, waiting included; what is open then is inconclusive."""
    requires: Labels = Field(default_factory=dict)
    """Labels that the worker must have."""
    worker: Name | None = None
    """The worker that measures both sides; without it one that is there and has little to do."""
    avoid: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    """Workers that must not be chosen."""
    protocol: Protocol | None = None
    """How to measure; without it the suite's way, or the default. Always one process a job."""
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] = 10
    """Before the history's jobs, which can wait: somebody waits for this one."""
    timeout_s: Annotated[FiniteFloat, Field(strict=True, gt=0, le=86_400)] = 1_800.0
    """Of one process."""
    source: Source = "api"
    """Who asked: ``api``, ``gate``, or what a part of the service calls itself."""
    project: Name | None = None
    """Whose it is; without it that of the token, or none."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if [self.suite is not None, self.case is not None, bool(self.cases)].count(True) != 1:
            raise ValueError("name exactly one of suite, case and cases")
        return self

    def specs(self) -> tuple[JobSpec, ...]:
        """One job per case, at the contender, every name checked.

        Raises:
            UnknownChoice: a name that the catalog does not have.
            Impossible: a combination that cannot run.
        """
        return expand(
            SubmissionRequest(
                suite=self.suite,
                case=self.case,
                cases=self.cases,
                revision=self.contender,
                purpose=Purpose.COMPARISON,
                requires=self.requires,
                priority=self.priority,
                protocol=self.protocol,
                replicates=1,
                timeout_s=self.timeout_s,
            )
        )
