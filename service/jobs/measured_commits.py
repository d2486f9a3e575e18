"""The cases of a commit that a schedule has measured, so that it need not again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, TypeAlias

from sqlalchemy import Row, and_, exists, or_, select
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES, Status, needed_gpus
from benchmarks.contracts.pins import needed_by, pins_of
from service.history.record import facts_digest
from service.jobs.requests import SubmissionRequest
from service.models import Job, ResultRow, Submission

_OF_THE_MACHINE = {Status.INFRA_ERROR, Status.CANCELLED, None}
"""Ends of a job, also the one without a result, that say nothing of the commit."""
_UNBUILDABLE_FOR = timedelta(days=1)
"""A commit that could not be built is not tried for so long, by workers neither: its target, or
what an index offers, may be mended meanwhile."""
_LOOKED_AT = 20
"""Submissions, the newest ones, and as many that say something of the commit: each minute may bring
another that does not where a machine fails."""

_JobRow: TypeAlias = Row[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class AlreadyMeasured:
    """Cases of a commit that a schedule need not submit again."""

    cases: frozenset[str] = frozenset()
    """Keys of the cases that were measured."""
    why_all: str = ""
    """The reason why nothing is to be submitted; empty if something is."""
    everything: bool = False
    """Whether that reason is that all cases were measured."""


def measured_of(session: Session, request: SubmissionRequest, now: datetime) -> AlreadyMeasured:
    """Say what the source of a request has measured of its revision.

    Submissions that required other labels do not count, for they were other machines.
    """
    rows = _jobs(session, request)
    name = request.revision[: None if pins_of(request.revision) else 12]
    if waiting := [row.created_at for row in rows if row.state not in FINAL_STATES]:
        return AlreadyMeasured(
            why_all=f"it awaits results of {name} since {min(waiting):%Y-%m-%d %H:%M} UTC."
        )
    measured: set[str] = set()
    unbuildable: dict[str, str] = {}
    for _, group in groupby(rows, lambda row: (row.submission_id, row.group_id)):
        replicates = list(group)
        case = replicates[0].case_key
        if failed := [row for row in replicates if row.status == Status.UNBUILDABLE]:
            if failed[0].received_at > now - _UNBUILDABLE_FOR:
                unbuildable[case] = failed[0].reason
        elif _is_measured(replicates):
            measured.add(case)
    left = {row.case_key for row in rows if row.submission_id == rows[0].submission_id} - measured
    done = frozenset(measured)
    if not rows or left - unbuildable.keys():
        return AlreadyMeasured(done)
    if left:
        reason = unbuildable[min(left)]
        return AlreadyMeasured(
            done, f"{name} could not be built, and is tried again after a day: {reason}"
        )
    return AlreadyMeasured(done, f"it has measured {name} already.", everything=True)


def _is_measured(replicates: Sequence[_JobRow]) -> bool:
    """Return True if all replicates of a case are ok, or one failed by the commit itself."""
    ends = {row.status for row in replicates}
    return ends == {Status.OK} or bool(ends - {Status.OK, *_OF_THE_MACHINE})


def _jobs(session: Session, request: SubmissionRequest) -> Sequence[_JobRow]:
    """The jobs of the newest such submissions with their results, the newest submission first."""
    named = request.requires | needed_by(request.revision)
    asked = [*request.cases, *([request.case] if request.case else [])]
    digests = {facts_digest(needed_gpus(case) | named) for case in asked} or {facts_digest(named)}
    of_it = (
        select(Submission.id)
        .where(
            Submission.revision == request.revision,
            Submission.suite == request.suite,
            Submission.source == request.source,
            Submission.project == (request.project or ""),
            exists().where(Job.submission_id == Submission.id, Job.requires.in_(digests)),
        )
        .order_by(Submission.id.desc())
        .limit(_LOOKED_AT)
    )
    says = ResultRow.counted, ResultRow.status.not_in(_OF_THE_MACHINE - {None})
    own = ResultRow.job_id == Job.id, Job.submission_id == Submission.id
    newest, telling = of_it, of_it.where(exists().where(*own, *says))
    result = ResultRow.status, ResultRow.reason, ResultRow.received_at
    query = (
        select(Job.submission_id, Job.group_id, Job.case_key, Job.state, Job.created_at, *result)
        .outerjoin(ResultRow, and_(ResultRow.job_id == Job.id, ResultRow.counted))
        .where(or_(Job.submission_id.in_(newest), Job.submission_id.in_(telling)))
        .order_by(Job.submission_id.desc(), Job.group_id, Job.id)
    )
    return session.execute(query).all()
