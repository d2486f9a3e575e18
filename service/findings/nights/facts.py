"""Gathers the facts of a night. Reads alone; `service.wording.night` has the words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from benchmarks import contracts
from service import findings, models
from service.analysis.statement import Statement
from service.findings.nights.cost import cost_between
from service.findings.queries import doubts_since
from service.schemas import nights
from service.schemas.costs import Price
from service.schemas.errors import NotFound
from service.wording.statements import headline_of

DAY = timedelta(days=1)
MOST = 200
"""Findings of each sort; a night that opens more is told by its first."""
_HOLDS = {
    contracts.JobState.QUEUED: "No worker has taken it yet.",
    contracts.JobState.LEASED: "It is being measured.",
    contracts.JobState.RUNNING: "It is being measured.",
}


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a schedule that fired."""

    schedule: str
    project: str
    night: date
    """The date of the slot where the schedule's clock hangs."""
    due_at: datetime
    submission_id: str | None
    note: str
    """Why the newest slot of the schedule submitted nothing."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A scheduled case."""

    key: str
    workload: str
    ended: bool
    why: str
    """Why there is no measurement of it; empty if there is one."""


def slots_between(session: Session, since: datetime, until: datetime) -> list[Slot]:
    """Slots that were due in a time, the first first."""
    run, schedule = models.ScheduleRun, models.Schedule
    query = (
        select(run, schedule)
        .join(schedule, schedule.name == run.schedule)
        .where(run.due_at >= since, run.due_at < until)
        .order_by(run.due_at, run.schedule)
    )
    return [
        Slot(
            run.schedule,
            schedule.project,
            local_date(run.due_at, schedule.timezone),
            run.due_at,
            run.submission_id,
            schedule.note,
        )
        for run, schedule in session.execute(query)
    ]


def local_date(at: datetime, timezone: str) -> date:
    """The date where a clock shows it."""
    return at.astimezone(ZoneInfo(timezone)).date()


def newest(session: Session, project: str | None = None) -> date:
    """The date of the newest slot.

    Raises:
        NotFound: no schedule has fired.
    """
    query = select(models.ScheduleRun.due_at).order_by(models.ScheduleRun.due_at.desc()).limit(1)
    if project is not None:
        of_project = models.Schedule.name == models.ScheduleRun.schedule
        query = query.join(models.Schedule, of_project).where(models.Schedule.project == project)
    due_at = session.scalars(query).first()
    if due_at is None:
        raise NotFound("No schedule has fired yet; `throughline schedule` says how to set one.")
    return max(slot.night for slot in slots_between(session, due_at - DAY, due_at + DAY))


def gather(
    session: Session,
    night: date,
    now: datetime,
    project: str | None = None,
    prices: Sequence[Price] = (),
) -> nights.NightReport:
    """Gather what is known of a night by now.

    Its slots are those of its date where each schedule's clock hangs.
    """
    midnight = datetime.combine(night, time(), UTC)
    near = slots_between(session, midnight - DAY, midnight + 3 * DAY)
    near = [slot for slot in near if project in {None, slot.project}]
    own = [slot for slot in near if slot.night == night]
    begins = min((slot.due_at for slot in own), default=midnight)
    ends = min([begins + DAY, *(slot.due_at for slot in near if slot.night > night)])
    submissions = [slot.submission_id for slot in own if slot.submission_id is not None]
    cases = _cases(session, submissions)
    opened = _within(models.FindingRow.opened_at, begins, ends, project)
    closed = _within(models.FindingRow.closed_at, begins, ends, project)
    return nights.NightReport(
        night=night,
        project=project,
        begins=begins,
        ends=ends,
        finished=all(case.ended for case in cases),
        schedules=sorted({slot.schedule for slot in own}),
        revisions=_revisions(session, submissions),
        changed=_findings(session, *opened),
        recovered=_findings(
            session, *closed, models.FindingRow.state == models.FindingState.RESOLVED
        ),
        expected_false=findings.expected_false_since(session, begins, *opened),
        doubted=len(doubts_since(session, begins, *opened)),
        unmeasured=_unmeasured(cases),
        not_submitted=[_why_not(slot) for slot in own if slot.submission_id is None],
        coverage=_coverage(cases),
        cost=cost_between(session, (begins, ends), now, project, prices),
    )


def _within(
    column: InstrumentedAttribute[Any], begins: datetime, ends: datetime, project: str | None
) -> list[ColumnElement[bool]]:
    of_project = [] if project is None else [models.FindingRow.project == project]
    return [column >= begins, column < ends, *of_project]


def _findings(session: Session, *conditions: ColumnElement[bool]) -> list[nights.NightFinding]:
    query = select(models.FindingRow).where(*conditions).order_by(models.FindingRow.id).limit(MOST)
    return [
        nights.NightFinding.of(row, headline=headline_of(Statement.read(row.says)))
        for row in session.scalars(query)
    ]


def _revisions(session: Session, submissions: Sequence[str]) -> list[str]:
    revision = models.Submission.revision
    query = select(revision).where(models.Submission.id.in_(submissions))
    return list(session.scalars(query.distinct().order_by(revision)))


def _why_not(slot: Slot) -> str:
    return f"{slot.schedule}: {slot.note or 'its slot submitted nothing.'}"


def _cases(session: Session, submissions: Sequence[str]) -> list[_Case]:
    """The cases of submissions, each with why it has no measurement."""
    job, result = models.Job, models.ResultRow
    columns = job.group_id, job.case_key, job.spec, job.state, job.reason
    query = (
        select(*columns, result.status, result.reason)
        .outerjoin(result, (result.job_id == job.id) & result.counted)
        .where(job.submission_id.in_(submissions))
        .order_by(job.submission_id, job.position, job.replicate)
    )
    disturbed = _disturbed(session, submissions)
    jobs: dict[str, list[Any]] = defaultdict(list)
    for row in session.execute(query):
        jobs[row.group_id].append(row)
    return [
        _Case(
            key=of_case[0].case_key,
            workload=of_case[0].spec["case"]["workload"],
            ended=all(contracts.JobState(row.state) in contracts.FINAL_STATES for row in of_case),
            why=_why(of_case) or disturbed.get(group, ""),
        )
        for group, of_case in jobs.items()
    ]


def _why(of_case: Sequence[Any]) -> str:
    """The reason why a case has no measurement; empty if it has one."""
    for row in of_case:
        if row.status not in {None, contracts.Status.OK}:
            return f"{row.status.replace('_', ' ')}: {row[-1]}".rstrip(": ")
    state = contracts.leading(contracts.JobState(row.state) for row in of_case)
    if state is contracts.JobState.SUCCEEDED:
        return ""
    reason = next((row.reason for row in of_case if row.state == state and row.reason), "")
    return reason or _HOLDS.get(state, state.value)


def _disturbed(session: Session, submissions: Sequence[str]) -> dict[str, str]:
    """The reasons why measurements count for nothing, by the group of their case."""
    query = (
        select(models.Job.group_id, models.Point.disturbed)
        .join(models.ResultRow, models.ResultRow.job_id == models.Job.id)
        .join(models.Point, models.Point.result_id == models.ResultRow.id)
        .where(models.Job.submission_id.in_(submissions), models.Point.disturbed != "")
    )
    return {
        group: f"The device was disturbed ({flags}), so that it counts for nothing."
        for group, flags in session.execute(query.distinct())
    }


def _unmeasured(cases: Iterable[_Case]) -> list[nights.Unmeasured]:
    """Put cases without a measurement together by reason, the commonest first."""
    by_reason: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for case in cases:
        if case.why:
            by_reason[case.why, not case.ended].append(case.key)
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return [nights.Unmeasured(why=why, cases=keys, waits=waits) for (why, waits), keys in ordered]


def _coverage(cases: Sequence[_Case]) -> list[nights.Coverage]:
    asked = Counter(case.workload for case in cases)
    measured = Counter(case.workload for case in cases if not case.why)
    return [
        nights.Coverage(workload=name, asked=count, measured=measured[name])
        for name, count in sorted(asked.items())
    ]
