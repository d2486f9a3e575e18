"""The requests for measurements: a suite, a case or several cases, at one revision."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from benchmarks import contracts
from benchmarks.catalog.precision_tiers import Tier
from service.schemas.errors import Invalid
from service.schemas.jobs import Source


class SubmissionRequest(contracts.Contract):
    """A suite, a case or several cases, to be measured at one revision."""

    suite: contracts.Name | None = None
    only: Annotated[tuple[contracts.Name, ...], Field(max_length=50)] = ()
    """Of the suite only the cases of these workloads; empty for all."""
    case: contracts.Case | None = None
    cases: Annotated[tuple[contracts.Case, ...], Field(max_length=500)] = ()
    revision: contracts.Revision
    revision_at: contracts.Moment | None = None
    """When the revision was made; it orders the history. Without it: when it was first seen."""
    revision_author: contracts.Line | None = None
    """By whom; a finding that begins with the revision says so."""
    revision_title: contracts.Line | None = None
    """The first line of its commit message."""
    purpose: contracts.Purpose = contracts.Purpose.HISTORY
    requires: contracts.Labels = Field(default_factory=dict)
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] = 0
    protocol: contracts.Protocol | None = None
    """How to measure; without it the suite's way, or the default."""
    tier: Tier | None = None
    """How sure the answer shall be: how many processes, and how long each. ``quick`` makes no
    history unless ``purpose`` says so."""
    replicates: Annotated[int, Field(strict=True, ge=1, le=50)] | None = None
    """In how many fresh processes; without it as many as the protocol or the tier says."""
    trace: contracts.Flag = False
    """Keep the profiler's trace of each case, whatever the protocol or the suite says of it."""
    timeout_s: Annotated[float, Field(strict=True, gt=0, le=86_400)] = 1_800.0
    source: Source = "api"
    rerun_of: contracts.Id | None = None
    project: contracts.Name | None = None
    """Whose it is; without it that of the token, or of what it measures again, or none."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if [self.suite is not None, self.case is not None, bool(self.cases)].count(True) != 1:
            raise ValueError("name exactly one of suite, case and cases")
        if self.only and self.suite is None:
            raise ValueError("only picks workloads of a suite, and no suite is named")
        if self.tier is not None and self.protocol is not None:
            raise ValueError("a tier is a protocol: give one of the two")
        return self

    @property
    def aim(self) -> contracts.Purpose:
        """Return the purpose of the results; a quick look makes no series unless that was asked."""
        quick = self.tier is Tier.QUICK and "purpose" not in self.model_fields_set
        return contracts.Purpose.COMPARISON if quick else self.purpose


class JobRequest(contracts.JobSpec):
    """A case to be measured, and whose it is; a worker is told the case alone."""

    project: contracts.Name | None = None


def request_of(spec: JobRequest) -> SubmissionRequest:
    """The submission of one job."""
    if spec.suite is not None:
        raise Invalid("A job of a suite is submitted with its suite: POST /api/v1/submissions")
    if spec.duet is not None:
        raise Invalid("A pair is submitted with its comparison: POST /api/v1/comparisons")
    given = spec.model_dump(exclude_unset=True, exclude={"suite", "replicate", "duet"})
    return SubmissionRequest.model_validate(given)
