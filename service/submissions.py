"""Submissions: a suite or some cases become jobs, once, however often the request is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Self, cast

from pydantic import BaseModel, Field, model_validator
from sqlalchemy import ColumnElement, Table, func, select
from sqlalchemy.orm import Session

from benchmarks import catalog, suites, tiers
from benchmarks.contracts import (
    FINAL_STATES,
    Case,
    Contract,
    JobSpec,
    Labels,
    Line,
    Moment,
    Name,
    Protocol,
    Purpose,
    Revision,
)
from benchmarks.tiers import Tier
from service import models, paging, queue, revisions, workers
from service.database import insert_if_absent
from service.errors import REUSED, Impossible, Invalid, KeyReused, NotFound, UnknownChoice
from service.ids import new_id
from service.jobs import JobView, jobs_of
from service.models import IdempotencyKey, Job
from service.paging import Page
from service.plausible import check_time

Source = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.:-]{0,63}$")]
_KEYS = cast(Table, IdempotencyKey.__table__)


class SubmissionRequest(Contract):
    """A suite, a case or several cases, to be measured at one revision."""

    suite: Name | None = None
    only: Annotated[tuple[Name, ...], Field(max_length=50)] = ()
    """Of the suite only the cases of these workloads; empty for all."""
    case: Case | None = None
    cases: Annotated[tuple[Case, ...], Field(max_length=500)] = ()
    revision: Revision
    revision_at: Moment | None = None
    """When the revision was made; it orders the history. Without it: when it was first seen."""
    purpose: Purpose = Purpose.HISTORY
    requires: Labels = Field(default_factory=dict)
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] = 0
    protocol: Protocol | None = None
    """How to measure; without it the suite's way, or the default."""
    tier: Tier | None = None
    """How sure the answer shall be: how many processes, and how long each. ``quick`` makes no
    history unless ``purpose`` says so."""
    replicates: Annotated[int, Field(strict=True, ge=1, le=50)] | None = None
    """In how many fresh processes; without it as many as the protocol or the tier says."""
    timeout_s: Annotated[float, Field(strict=True, gt=0, le=86_400)] = 1_800.0
    source: Source = "api"
    rerun_of: Line | None = None

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
    def aim(self) -> Purpose:
        """What the results are for: a quick look is no point in a series, unless that was asked."""
        quick = self.tier is Tier.QUICK and "purpose" not in self.model_fields_set
        return Purpose.COMPARISON if quick else self.purpose


class SubmissionSummary(BaseModel):
    """What a list shows of a submission."""

    id: str
    suite: str | None
    revision: str
    source: str
    created_at: datetime
    finished: bool
    """Whether every job has come to an end."""
    counts: dict[str, int]
    """How many jobs are in each state."""


class SubmissionView(SubmissionSummary):
    """Jobs that were submitted together."""

    jobs: list[JobView]


class Submitted(SubmissionView):
    """A submission, answered to whoever made it."""

    left_out: int
    """Cases of the suite, of the workloads in ``only`` if any, that were not queued: the device
    refuses them. It is told here only: later the suite may have other cases."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The submission that a request made, or had made before."""

    submission_id: str
    replayed: bool
    left_out: int
    """Cases of the suite that was asked for which were not queued."""


class _Taken(Exception):
    """Another request with the same key was faster."""


def submit(
    session: Session, request: SubmissionRequest, now: datetime, key: str | None = None
) -> Accepted:
    """Queue what ``request`` asks for; with ``key``, only the first time.

    Raises:
        UnknownChoice: a name that the catalog does not have.
        Impossible: a combination that cannot run.
        Invalid: a time or a job that cannot be.
        KeyReused: ``key`` came with another request before.
    """
    likely = workers.common_device(session, request.requires, now) if request.suite else None
    specs = expand(request, likely)
    left_out = _left_out(request, len(specs))
    if key is None:
        made = _store(session, request, specs, now)
        return Accepted(made, replayed=False, left_out=left_out)
    before = _answered(session, key, request)
    if before is not None:
        return before
    try:
        with session.begin_nested():
            made = _store(session, request, specs, now)
            digest = digest_of(request)
            row = {"key": key, "digest": digest, "submission_id": made, "created_at": now}
            if not insert_if_absent(session, _KEYS, row):
                raise _Taken
    except _Taken:
        before = _answered(session, key, request)
        assert before is not None
        return before
    return Accepted(made, replayed=False, left_out=left_out)


def expand(request: SubmissionRequest, likely: str | None = None) -> tuple[JobSpec, ...]:
    """The jobs that ``request`` means, every name checked and every case in its normal form.

    A suite runs as far as it can: the cases that its device refuses are left out.

    Args:
        request: what is asked for.
        likely: ``cuda`` or ``cpu``, where ``requires`` leaves the device open and all workers that
            were seen lately have this one.

    Raises:
        UnknownChoice: a name that the catalog does not have.
        Impossible: a combination that cannot run; or no case of a suite can.
    """
    try:
        suite = suites.suite(request.suite) if request.suite is not None else None
        device = None if suite else _device(request.requires)
        cases = [catalog.normalise(case, device) for case in _asked(request, suite)]
        if suite is not None:
            cases = _possible(suite, cases, _device(request.requires), likely)
    except catalog.UnknownName as error:
        raise UnknownChoice(str(error)) from error
    except catalog.Refused as error:
        raise Impossible(str(error)) from error
    if request.revision_at is not None:
        check_time("revision_at", request.revision_at)
    protocol = _protocol(request, suite)
    in_turn = len(cases) > 1 and protocol.replicates > 1
    return tuple(
        JobSpec(
            case=case,
            revision=request.revision,
            revision_at=request.revision_at,
            protocol=protocol,
            suite=request.suite,
            purpose=request.aim,
            requires=request.requires,
            priority=request.priority,
            timeout_s=request.timeout_s,
            in_turn=in_turn,
            rerun_of=request.rerun_of,
        )
        for case in cases
    )


def request_of(spec: JobSpec) -> SubmissionRequest:
    """The submission of one job."""
    if spec.suite is not None:
        raise Invalid("A job of a suite is submitted with its suite: POST /api/v1/submissions")
    given = spec.model_dump(exclude_unset=True, exclude={"suite", "in_turn"})
    return SubmissionRequest.model_validate(given)


def load_submission(session: Session, submission_id: str) -> SubmissionView:
    """One submission with its jobs.

    Raises:
        NotFound: there is no such submission.
    """
    row = session.get(models.Submission, submission_id)
    if row is None:
        raise NotFound("There is no such submission; GET /api/v1/submissions lists them.")
    summary = _summaries(session, [row])[0]
    return SubmissionView(**summary.model_dump(), jobs=jobs_of(session, submission_id))


def answer_of(session: Session, accepted: Accepted) -> Submitted:
    """What the request that was ``accepted`` is answered."""
    made = load_submission(session, accepted.submission_id)
    return Submitted(**dict(made), left_out=accepted.left_out)


def is_finished(session: Session, submission_id: str) -> bool:
    """Whether every job of a submission has come to an end; True if there is none."""
    open_jobs = select(Job.id).where(
        Job.submission_id == submission_id, Job.state.not_in(FINAL_STATES)
    )
    return session.execute(open_jobs.limit(1)).first() is None


def list_submissions(
    session: Session, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> Page[SubmissionSummary]:
    """Submissions that meet ``conditions``, the newest first."""
    page = paging.newest_first(
        session, models.Submission, models.Submission.id, conditions, after, limit
    )
    return page.shown(_summaries(session, page.items))


def digest_of(request: Contract) -> str:
    """Names a request by what it says; the order of the names in it says nothing."""
    said = request.model_dump(mode="json", exclude_unset=True)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _protocol(request: SubmissionRequest, suite: suites.Suite | None) -> Protocol:
    protocol = request.protocol or (suite.protocol if suite else Protocol(efficiency=True))
    if request.tier is not None:
        protocol = tiers.timed(request.tier, protocol)
    if request.replicates is not None:
        protocol = protocol.model_copy(update={"replicates": request.replicates})
    return protocol


def _asked(request: SubmissionRequest, suite: suites.Suite | None) -> Sequence[Case]:
    if suite is not None:
        return _picked(suite, request.only)
    return request.cases if request.case is None else (request.case,)


def _picked(suite: suites.Suite, only: Sequence[str]) -> Sequence[Case]:
    workloads = tuple(dict.fromkeys(case.workload for case in suite.cases))
    if strange := [name for name in only if name not in workloads]:
        raise UnknownChoice(
            f"The suite {suite.name!r} has no workload {strange[0]!r}; "
            f"choose from: {', '.join(workloads)}."
        )
    return [case for case in suite.cases if not only or case.workload in only]


def _left_out(request: SubmissionRequest, queued: int) -> int:
    """How many cases of the suite that was asked for are not among those that were queued."""
    if request.suite is None:
        return 0
    return max(0, len(_picked(suites.suite(request.suite), request.only)) - queued)


def _possible(
    suite: suites.Suite, cases: list[Case], required: str | None, likely: str | None
) -> list[Case]:
    """Those of a suite's cases that can run; which device that is may not be known."""
    device = required or likely
    kept = [case for case in cases if device is None or not _refused(case, device)]
    if kept or required is None:  # another device may come for what none can do yet
        return kept or cases
    raise Impossible(f"No case of the suite {suite.name!r} can run on device={required}.")


def _refused(case: Case, device: str) -> bool:
    try:
        catalog.normalise(case, device)
    except catalog.Refused:
        return True
    return False


def _device(requires: dict[str, str]) -> str | None:
    device = requires.get("device")
    return device if device in ("cuda", "cpu") else None


def _store(
    session: Session, request: SubmissionRequest, specs: Sequence[JobSpec], now: datetime
) -> str:
    if request.rerun_of is not None and session.get(Job, request.rerun_of) is None:
        raise Invalid("rerun_of names no job; GET /api/v1/jobs lists them.")
    revisions.register(session, request.revision, request.revision_at, now)
    row = models.Submission(
        id=new_id(now),
        suite=request.suite,
        revision=request.revision,
        source=request.source,
        created_at=now,
    )
    session.add(row)
    session.flush()
    queue.submit(session, specs, row.id, now)
    return row.id


def _answered(session: Session, key: str, request: SubmissionRequest) -> Accepted | None:
    row = session.get(IdempotencyKey, key)
    if row is None:
        return None
    if row.digest != digest_of(request):
        raise KeyReused(REUSED)
    jobs = select(func.count()).where(Job.submission_id == row.submission_id)
    left_out = _left_out(request, session.scalar(jobs) or 0)
    return Accepted(row.submission_id, replayed=True, left_out=left_out)


def _summaries(session: Session, rows: Sequence[models.Submission]) -> list[SubmissionSummary]:
    counts: dict[str, dict[str, int]] = {row.id: {} for row in rows}
    per_state = (
        select(Job.submission_id, Job.state, func.count())
        .where(Job.submission_id.in_(counts))
        .group_by(Job.submission_id, Job.state)
    )
    for submission_id, state, count in session.execute(per_state):
        counts[submission_id][state] = count
    return [
        SubmissionSummary(
            id=row.id,
            suite=row.suite,
            revision=row.revision,
            source=row.source,
            created_at=row.created_at,
            finished=counts[row.id].keys() <= FINAL_STATES,
            counts=counts[row.id],
        )
        for row in rows
    ]
