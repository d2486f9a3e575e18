"""Stores a comparison; the first round follows when it is moved on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from benchmarks import contracts
from service import models
from service.comparisons import worker_choice
from service.database.session import new_id
from service.history import revisions
from service.jobs import submit
from service.jobs.expand import expand
from service.jobs.requests import SubmissionRequest
from service.outbox import events
from service.schemas import errors
from service.schemas.comparisons import ComparisonRequest
from service.wording import formats


@dataclass(frozen=True, slots=True)
class AcceptedComparison:
    """The comparison that a request made, or had made before."""

    comparison_id: str
    replayed: bool


def start(
    session: Session, request: ComparisonRequest, now: datetime, key: str | None = None
) -> AcceptedComparison:
    """Store a comparison; with ``key``, only the first time.

    Raises:
        UnknownChoice: a name that the catalog does not have, or a revision that no worker has.
        Impossible: a combination that cannot run.
        Invalid: a case stands twice.
        KeyReused: ``key`` came with another request before.
    """
    specs = specs_of(request)
    if len({spec.case.key for spec in specs}) < len(specs):
        raise errors.Invalid("A case stands twice in this comparison; name each once.")
    if key is not None:
        key = submit.kept_as(key, request.project)
    if before := _answered(session, request, key):
        return before
    if why := worker_choice.lacking(session, request, now):
        raise errors.UnknownChoice(why)
    try:
        with session.begin_nested():
            return AcceptedComparison(_store(session, request, specs, now, key), replayed=False)
    except IntegrityError:  # another request with the same key was faster
        before = _answered(session, request, key)
        if before is None:
            raise
        return before


def _store(
    session: Session,
    request: ComparisonRequest,
    specs: Sequence[contracts.JobSpec],
    now: datetime,
    key: str | None,
) -> str:
    comparison_id = new_id(now)
    stored = request.model_copy(update={"protocol": specs[0].protocol})
    sides = [
        _submission(session, comparison_id, revision, request.project or "", place, now)
        for place, revision in enumerate((request.baseline, request.contender))
    ]
    row = models.ComparisonRow(
        id=comparison_id,
        state=models.ComparisonState.RUNNING,
        baseline=request.baseline,
        contender=request.contender,
        source=request.source,
        project=request.project or "",
        request=stored.model_dump(mode="json", exclude=_absent(request)),
        cases=[spec.case.model_dump(mode="json") for spec in specs],
        baseline_submission=sides[0],
        contender_submission=sides[1],
        worker=request.worker,
        rounds=0,
        created_at=now,
        ends_at=now + timedelta(seconds=request.budget_s),
        reason="",
        key=key,
        key_digest=None if key is None else submit.digest_of(request),
    )
    session.add(row)
    session.flush()
    if request.pull_request is not None:
        tell(session, row, models.EventKind.COMPARISON_STARTED, "started", "", now)
    return row.id


def tell(
    session: Session,
    row: models.ComparisonRow,
    kind: models.EventKind,
    what: str,
    sentence: str,
    now: datetime,
) -> None:
    """Have other programs told ``what`` became of a comparison."""
    pull_request = row.parsed_request.pull_request
    baseline, contender = formats.revision(row.baseline), formats.revision(row.contender)
    workloads = {case["workload"] for case in row.cases}
    news = events.News(
        kind,
        f"{contender} against {baseline}: {what}",
        sentence,
        row.id,
        row.project,
        workload=workloads.pop() if len(workloads) == 1 else "",
        outcome=what if kind is models.EventKind.COMPARISON_DECIDED else "",
        pull_request="" if pull_request is None else pull_request.key,
    )
    events.write(session, news, now)


def _absent(request: ComparisonRequest) -> set[str]:
    """Leave out what says nothing: versions without projects or probes read such requests."""
    names = ("project", "probe", "pull_request")
    return {name for name in names if getattr(request, name) in (None, "")}


def _submission(
    session: Session, comparison_id: str, revision: str, project: str, place: int, now: datetime
) -> str:
    """The submission that one side's jobs belong to, for a submission is of one revision."""
    revisions.register(session, revision, None, now)
    row = models.Submission(
        id=new_id(now, place),
        suite=None,
        project=project,
        revision=revision,
        source=f"{revisions.COMPARISON}{comparison_id}",
        created_at=now,
    )
    session.add(row)
    session.flush()
    return row.id


def _answered(
    session: Session, request: ComparisonRequest, key: str | None
) -> AcceptedComparison | None:
    if key is None:
        return None
    row = session.scalars(
        select(models.ComparisonRow).where(models.ComparisonRow.key == key)
    ).first()
    if row is None:
        return None
    if row.key_digest != submit.digest_of(request):
        raise errors.KeyReused(errors.REUSED)
    return AcceptedComparison(row.id, replayed=True)


def specs_of(request: ComparisonRequest) -> tuple[contracts.JobSpec, ...]:
    """One job per case, at the contender, every name checked."""
    return expand(
        SubmissionRequest(
            suite=request.suite,
            case=request.case,
            cases=request.cases,
            revision=request.contender,
            purpose=contracts.Purpose.COMPARISON,
            requires=request.requires,
            priority=request.priority,
            protocol=request.protocol,
            replicates=1,
            timeout_s=request.timeout_s,
        )
    )
