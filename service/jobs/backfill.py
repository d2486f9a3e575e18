"""While workers idle: measures the commits between two measured ones where a level changed.

Where none is left, and no commit is new, what is least certain is measured again.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, literal, select, update
from sqlalchemy.orm import Session

from benchmarks import contracts
from service.database.session import alone, rows
from service.history.change_ends import doubtful_end, ends_of
from service.jobs import commit_ranges, expiry, heads, remeasure
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.jobs.transitions import LIVE
from service.jobs.workers import PRESENT
from service.models import (
    PROBES,
    Attempt,
    BisectionRow,
    BisectionState,
    ChangeRow,
    CommitRangeRow,
    ComparisonJob,
    ComparisonRow,
    Eligibility,
    FindingRow,
    FindingSeries,
    Job,
    PendingAnalysis,
    ResultRow,
    Schedule,
    Submission,
    WorkerRow,
)
from service.schemas.errors import Invalid, ServiceError
from service.schemas.findings import Cause, Certainty

log = logging.getLogger(__name__)

SOURCE = "backfill:"
"""Prefix of the source of its submissions; the schedule's name follows."""
PRIORITY = -100
"""After everything else that waits."""
DAY = timedelta(days=1)
LIMIT = timedelta(minutes=30)
"""Longest process, and how long before a schedule's slot none begins: it takes no time of it."""
LOOKED_AT = 50
"""Changes, the newest ones."""
MOST_TIMES = 4
"""Submissions of a commit: what still differs then is not to be settled by one more."""
MADE_WAY = "Cancelled before a schedule's slot; it comes later."


@dataclass(frozen=True, slots=True)
class Gap:
    """Two measured commits of a schedule's target between which levels changed on one worker."""

    good: str
    bad: str
    worker: str
    schedule: str
    project: str
    like: contracts.JobSpec
    """Spec of the job that measured the bad one."""
    confirmed: frozenset[str] = frozenset()
    """Revisions that the finding's confirmation measured side by side."""
    cases: dict[str, contracts.Case] = field(default_factory=dict)
    """Those whose level changed, by key."""
    changes: list[tuple[str, ChangeRow]] = field(default_factory=list)
    """The changes, each with the key of its case."""


def fill(session: Session, daily: int, now: datetime) -> str | None:
    """Submit the median commit of one gap, the newest first; return the submission's id.

    Without a gap, submit what `remeasure` chooses. Only a worker that has nothing to do is asked,
    and no more than ``daily`` jobs a day. Before a schedule's slot what waits is cancelled, and
    comes later.
    """
    alone(session, "backfill")
    if _slot_is_near(session, now):
        _make_way(session, now)
        return None
    idle = set(session.scalars(_idle(now)))
    left = daily - _spent_since(session, now - DAY)
    if not idle or left <= 0:
        return None
    gaps, waiting = _gaps(session), remeasure.without_new_commit(session)
    if not (gaps or waiting):
        return None
    here = commit_ranges.workers_here(session, now)
    builds = {row.name: set(row.revisions or ()) for row in here if row.name in idle}
    for gap in (one for one in gaps if one.worker in builds):
        known = _between(session, gap, now, here)
        if known is None or (tried := _tried(session, gap, known)) is None:
            waiting = ()  # this gap comes first
            continue
        place = _median(known, tried, builds[gap.worker])
        if place is None:
            made = _submit_end(session, gap, builds[gap.worker], left, now)
        else:
            made = _submit(session, gap, _facts(known[place]), left, now)
        if made:
            return made
    free = [row for row in here if row.name in builds]
    return _submit_again(session, remeasure.chosen(session, waiting, free, left, now), now)


def _slot_is_near(session: Session, now: datetime) -> bool:
    near = Schedule.enabled.is_(True), Schedule.next_due_at <= now + LIMIT
    return session.scalars(select(Schedule.name).where(*near).limit(1)).first() is not None


def _make_way(session: Session, now: datetime) -> None:
    query = select(Job.id).join(Submission).where(_OWN, Job.state == contracts.JobState.QUEUED)
    waiting = session.scalars(query).all()
    for job_id in waiting:
        expiry.cancel(session, job_id, now)
    cancelled = update(Job).where(Job.id.in_(waiting), Job.state == contracts.JobState.CANCELLED)
    rows(session, cancelled.values(reason=MADE_WAY))


_OWN: ColumnElement[bool] = Submission.source.startswith(SOURCE)


def _idle(now: datetime) -> Select[str]:
    """Workers that build commits, are here, measure nothing, and have nothing to measure next.

    A bisection's next pair is asked for some seconds after the last one.
    """
    at_work = exists().where(Attempt.worker == WorkerRow.name, Attempt.state.in_(LIVE))
    waiting = exists().where(
        Eligibility.worker == WorkerRow.name,
        Job.requires == Eligibility.requires,
        Job.state == contracts.JobState.QUEUED,
    )
    bisects = exists().where(
        BisectionRow.state == BisectionState.RUNNING,
        ComparisonRow.source == literal(PROBES) + BisectionRow.id,
        ComparisonRow.worker == WorkerRow.name,
    )
    here = WorkerRow.last_seen_at > now - PRESENT, WorkerRow.drained_at.is_(None)
    builds = WorkerRow.targets.is_not(None)
    return select(WorkerRow.name).where(*here, builds, ~at_work, ~waiting, ~bisects)


def _spent_since(session: Session, since: datetime) -> int:
    """Count the jobs of a day; what made way for a schedule took no time."""
    made = select(func.count()).select_from(Job).join(Submission)
    counted = _OWN, Submission.created_at > since, Job.state != contracts.JobState.CANCELLED
    return session.execute(made.where(*counted)).scalar_one()


_OF_THE_CODE = (
    FindingRow.cause == Cause.CODE,
    FindingRow.certainty == Certainty.CONFIRMED,
    FindingRow.closed_at.is_(None),
)
"""Both ends were measured again, side by side: on a machine that became slower, each commit between
would look like the culprit."""


def _gaps(session: Session) -> Sequence[Gap]:
    """The gaps of the schedules that follow a ref, those with the newest change first."""
    rule = Schedule.revision_rule.startswith(heads.RULE), Schedule.enabled.is_(True)
    names = session.scalars(select(Schedule.name).where(*rule)).all()
    known = {f"{kind}{name}"[:64]: name for name in names for kind in ("schedule:", SOURCE)}
    query = (
        select(ChangeRow, FindingRow, ResultRow.worker, Job.spec, Submission)
        .join(FindingSeries, FindingSeries.change_id == ChangeRow.id)
        .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
        .join(ResultRow, ResultRow.id == ChangeRow.first_bad_result)
        .join(Job, Job.id == ResultRow.job_id)
        .join(Submission, Submission.id == Job.submission_id)
        .where(ChangeRow.present, Submission.source.in_(known), *_OF_THE_CODE)
        .order_by(ChangeRow.first_bad_at.desc(), ChangeRow.id.desc())
        .limit(LOOKED_AT)
    )
    gaps: dict[tuple[str, ...], Gap] = {}
    for change, finding, worker, spec, made in session.execute(query):
        like, ends = contracts.JobSpec.model_validate(spec), ends_of(session, change)
        how = json.dumps([spec["protocol"], spec["requires"]], sort_keys=True)
        confirmed = frozenset({finding.last_good, finding.first_bad})
        new = Gap(*ends, worker, known[made.source], made.project, like, confirmed)
        gap = gaps.setdefault((*ends, worker, new.schedule, made.project, how), new)
        gap.cases[like.case.key] = like.case
        gap.changes.append((like.case.key, change))
    return list(gaps.values())


def _between(
    session: Session, gap: Gap, now: datetime, here: Sequence[WorkerRow]
) -> list[contracts.ListedCommit] | None:
    """The commits between, none if nobody lists them; None while they are not known."""
    row = session.get(CommitRangeRow, (gap.good, gap.bad))
    if row is None:
        try:
            row = commit_ranges.ask(session, gap.good, gap.bad, now, here)
        except Invalid:
            return []
    awaited = row.listed_at is None and not row.reason
    return None if awaited else commit_ranges.commits_of(row)[:-1]


def _tried(session: Session, gap: Gap, known: Sequence[contracts.ListedCommit]) -> set[str] | None:
    """The commits that were measured, or could not be; None while that is not known of one.

    A commit whose jobs a person cancelled is not tried again; one that made way for a slot is, and
    one that was only compared, for a gate or a bisection: no history has it.
    """
    names = [one.commit for one in known]
    unread = exists().where(PendingAnalysis.revision.in_([*names, gap.good, gap.bad]))
    if session.execute(select(unread)).scalar_one():
        return None
    columns = Job.revision, Job.group_id, Job.state, Job.reason
    compared = exists().where(ComparisonJob.job_id == Job.id)
    alike = Job.case_key.in_(gap.cases), Job.project == gap.project
    query = select(*columns).where(Job.revision.in_(names), *alike, ~compared)
    groups: Mapping[tuple[str, str], set[str]] = defaultdict(set)
    for revision, group_id, state, reason in session.execute(query):
        if state not in contracts.FINAL_STATES:
            return None
        groups[revision, group_id].add(reason)
    return {key[0] for key, reasons in groups.items() if MADE_WAY not in reasons}


def _median(
    known: Sequence[contracts.ListedCommit], tried: Collection[str], built: Collection[str]
) -> int | None:
    """The place nearest to the middle that was not tried and that the worker builds."""
    open_ = [
        place for place, one in enumerate(known) if one.commit not in tried and one.commit in built
    ]
    middle = (len(known) - 1) / 2
    return min(open_, key=lambda place: abs(place - middle), default=None)


def _submit_end(
    session: Session, gap: Gap, built: Collection[str], left: int, now: datetime
) -> str | None:
    """Submit an end of a gap again, if single measurements put a change there."""
    doubted: dict[str, dict[str, contracts.Case]] = defaultdict(dict)
    for key, change in gap.changes:
        if end := doubtful_end(session, change, (gap.good, gap.bad), gap.confirmed):
            doubted[end][key] = gap.cases[key]
    for end, cases in doubted.items():
        if end in built and _times(session, end, cases) < MOST_TIMES:
            return _submit(session, replace(gap, cases=cases), {"revision": end}, left, now)
    return None


def _times(session: Session, revision: str, cases: Collection[str]) -> int:
    """Count the submissions of a commit that nobody asked for."""
    query = select(func.count(Submission.id.distinct())).join(Job)
    own = _OWN, Job.revision == revision, Job.case_key.in_(cases)
    return session.execute(query.where(*own)).scalar_one()


def _facts(commit: contracts.ListedCommit) -> dict[str, Any]:
    """What is known of a commit, as fields of a request."""
    return {
        "revision": commit.commit,
        "revision_at": commit.at,
        "revision_author": commit.author or None,
        "revision_title": commit.title or None,
    }


def _submit(
    session: Session, gap: Gap, commit: Mapping[str, Any], left: int, now: datetime
) -> str | None:
    """Submit as many of the cases as a day still allows."""
    cases = tuple(gap.cases.values())[: left // gap.like.protocol.replicates]
    if not cases:
        return None
    request = SubmissionRequest(
        cases=cases,
        source=f"{SOURCE}{gap.schedule}"[:64],
        project=gap.project or None,
        **commit,
        **_as_measured(gap.like, gap.worker),
    )
    return _queued(session, request, "between two others", now)


def _submit_again(session: Session, chosen: Sequence[remeasure.Again], now: datetime) -> str | None:
    """Submit each case for its worker; return the last submission's id."""
    made = None
    for one in chosen:
        request = SubmissionRequest(
            cases=(one.like.case,),
            revision=one.commit,
            source=one.source,
            project=one.schedule.project or None,
            **_as_measured(one.like, one.worker),
        )
        queued = _queued(session, request, "again", now)
        if queued is not None:
            made = queued
            one.schedule.note = f"{remeasure.WHY}, last {one.like.case.key} on {one.worker}."[:500]
    return made


def _as_measured(like: contracts.JobSpec, worker: str) -> dict[str, Any]:
    """How a job was measured, as fields of a request, for one worker and after everything else."""
    return {
        "requires": like.requires | {"worker": worker},
        "priority": PRIORITY,
        "protocol": like.protocol,
        "timeout_s": min(like.timeout_s, LIMIT.total_seconds()),
    }


def _queued(session: Session, request: SubmissionRequest, how: str, now: datetime) -> str | None:
    try:
        with session.begin_nested():
            made = submit(session, request, now).submission_id
    except ServiceError as error:
        log.info("%s is not measured %s: %s", request.revision, how, error.detail)
        return None
    log.info("%s is measured %s (%s)", request.revision, how, request.source)
    return made
