"""Promises of which one statement gives every row that breaks them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, func, or_, select, union_all
from sqlalchemy.orm import Session, aliased

from service import models
from service.history import revisions
from service.maintenance.verify.agreement import ROWS
from service.maintenance.verify.values import Breach
from service.schemas.access import TokenKind

MOST = 100
"""Rows of one kind that are named; one is enough to know, and a thousand tell no more."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A query for the rows that break a promise, and the words for one, with its columns."""

    promise: int
    subject: str
    sentence: str
    query: Select[*tuple[Any, ...]]

    def __call__(self, session: Session) -> Iterator[Breach]:
        """Yield a breach for each row, of many the first `MOST`."""
        for row in session.execute(self.query.limit(MOST)):
            subject = self.subject.format_map(row._mapping)
            yield Breach(self.promise, subject, self.sentence.format_map(row._mapping))


def _first_seen() -> Iterator[RowCheck]:
    """11: environments, revisions and series were first seen when something of theirs came."""
    came = and_(
        models.ResultRow.environment == models.EnvironmentRow.digest,
        models.ResultRow.received_at == models.EnvironmentRow.first_seen_at,
    )
    imported = select(models.ImportedPoint.id).join(
        models.Point, models.Point.result_id == models.ImportedPoint.id
    )
    with_it = imported.where(
        models.Point.environment == models.EnvironmentRow.digest,
        models.ImportedPoint.received_at == models.EnvironmentRow.first_seen_at,
    )
    unseen = (
        select(models.EnvironmentRow.digest)
        .outerjoin(models.ResultRow, came)
        .where(models.ResultRow.id.is_(None), ~with_it.exists())
    )
    sentence = "No result came when it was first seen."
    yield RowCheck(ROWS, "environments {digest}", sentence, unseen)
    submitted = select(models.Submission.id).where(
        models.Submission.revision == models.Revision.name,
        models.Submission.created_at == models.Revision.first_seen_at,
    )
    sentence = "Nothing was submitted when it was first seen."
    at_it = select(models.ImportedPoint.id).where(
        models.ImportedPoint.revision == models.Revision.name,
        models.ImportedPoint.received_at == models.Revision.first_seen_at,
    )
    unseen_ = select(models.Revision.name).where(~submitted.exists(), ~at_it.exists())
    yield RowCheck(ROWS, "revisions {name}", sentence, unseen_)
    made = select(models.Point.result_id).join(
        models.ResultRow, models.ResultRow.id == models.Point.result_id
    )
    made = made.where(
        models.Point.series_id == models.SeriesRow.id,
        models.ResultRow.received_at == models.SeriesRow.created_at,
    )
    into_it = select(models.ImportedPoint.id).where(
        models.ImportedPoint.series_id == models.SeriesRow.id,
        models.ImportedPoint.received_at == models.SeriesRow.created_at,
    )
    sentence = "No result came when it was made."
    unmade = select(models.SeriesRow.id).where(~made.exists(), ~into_it.exists())
    yield RowCheck(ROWS, "series {id}", sentence, unmade)


def _points() -> Iterator[RowCheck]:
    """6 and 9: points come from a result or an import, and what is about a point has one."""
    result = select(models.ResultRow.id).where(models.ResultRow.id == models.Point.result_id)
    imported = select(models.ImportedPoint.id).where(
        models.ImportedPoint.id == models.Point.result_id
    )
    lost = select(models.Point.series_id, models.Point.result_id)
    lost = lost.where(~result.exists(), ~imported.exists())
    sentence = "Its result_id {result_id} is in no row of results."
    yield RowCheck(6, "points {series_id} {result_id}", sentence, lost)
    waiting = select(models.PendingAnalysis.id, models.PendingAnalysis.result_id.label("result"))
    waiting = waiting.where(models.PendingAnalysis.result_id.is_not(None))
    for made in (models.ResultRow, models.ImportedPoint):
        known = select(made.id).where(made.id == models.PendingAnalysis.result_id)
        waiting = waiting.where(~known.exists())
    yield RowCheck(9, "pending_analyses {id}", "Its result_id {result} is nowhere.", waiting)
    for column in (
        models.SettledWindow.next_from,
        models.ChangeRow.first_bad_result,
        models.FindingSeries.first_bad_result,
    ):
        there = select(models.Point.result_id).where(models.Point.result_id == column)
        query = select(column.label("id")).where(column.is_not(None), ~there.exists())
        sentence = f"Its {column.key} {{id}} is in no row of points."
        yield RowCheck(9, column.class_.__tablename__, sentence, query)


def _access() -> Iterator[RowCheck]:
    """11: a key leads to what was made with it, a used code to a token, a worker's made just then.

    An index of label sets knows only workers that there are.
    """
    query = (
        select(models.IdempotencyKey.key, models.Submission.id)
        .join(models.Submission, models.Submission.id == models.IdempotencyKey.submission_id)
        .where(models.IdempotencyKey.created_at != models.Submission.created_at)
    )
    sentence = "It leads to submission {id}, which was not made with it."
    yield RowCheck(ROWS, "idempotency_keys {key}", sentence, query)
    of_another = or_(
        models.TokenRow.name != models.EnrolmentRow.worker,
        models.TokenRow.kind != TokenKind.WORKER,
        models.TokenRow.created_at != models.EnrolmentRow.used_at,
    )
    half = models.EnrolmentRow.used_at.is_(None) != models.EnrolmentRow.token_id.is_(None)
    used = select(models.EnrolmentRow.id).outerjoin(
        models.TokenRow, models.TokenRow.id == models.EnrolmentRow.token_id
    )
    used = used.where(or_(half, and_(models.EnrolmentRow.worker.is_not(None), of_another)))
    sentence = "It was used for another token, or for none."
    yield RowCheck(ROWS, "enrolments {id}", sentence, used)
    known = (
        select(models.WorkerRow.name)
        .where(models.WorkerRow.name == models.Eligibility.worker)
        .exists()
    )
    nobody = select(models.Eligibility.requires, models.Eligibility.worker).where(~known)
    yield RowCheck(ROWS, "eligibilities {requires}", "There is no worker {worker}.", nobody)


def _groups_of_jobs() -> Iterator[RowCheck]:
    """11: the jobs of a group are the replicates of one case, each once, kept for who began it."""
    first = aliased(models.Job)
    same = and_(
        first.id == models.Job.group_id,
        first.case_key == models.Job.case_key,
        first.submission_id == models.Job.submission_id,
        first.position == models.Job.position,
    )
    strange = (
        select(models.Job.id, models.Job.group_id).outerjoin(first, same).where(first.id.is_(None))
    )
    sentence = "The first of its group is {group_id}, another case."
    yield RowCheck(ROWS, "job {id}", sentence, strange)
    due = func.min(models.Job.spec["protocol"]["replicates"].as_integer())
    counts = (
        func.count(),
        func.count(models.Job.replicate.distinct()),
        func.max(models.Job.replicate),
    )
    sizes = select(models.Job.group_id, due.label("due"), counts[0].label("jobs")).group_by(
        models.Job.group_id
    )
    partial = sizes.having(or_(*(count != due for count in counts)))
    sentence = "Its group has {jobs} jobs for {due} replicates, or one twice."
    yield RowCheck(ROWS, "job {group_id}", sentence, partial)
    begun = select(models.Attempt.job_id).join(first, first.id == models.Attempt.job_id)
    begun = begun.where(
        first.group_id == models.Job.group_id, models.Attempt.worker == models.Job.kept_for
    )
    kept = select(models.Job.id, models.Job.kept_for).where(
        models.Job.kept_for.is_not(None), ~begun.exists()
    )
    sentence = "It is kept for {kept_for}, who never held a job of its group."
    yield RowCheck(ROWS, "job {id}", sentence, kept)


def _slots() -> Iterator[RowCheck]:
    """8: a slot fires at most once, not before its time, and it and what it submitted agree."""
    slot = (models.ScheduleRun.schedule, models.ScheduleRun.due_at)
    subject = "schedule {schedule}"
    again = select(*slot).group_by(*slot).having(func.count() > 1)
    yield RowCheck(8, subject, "Its slot of {due_at} fired twice.", again)
    made = select(models.ScheduleRun.submission_id).where(
        models.ScheduleRun.submission_id.is_not(None)
    )
    twice = made.group_by(models.ScheduleRun.submission_id).having(func.count() > 1)
    sentence = "Two slots claim to have made it."
    yield RowCheck(8, "submission {submission_id}", sentence, twice)
    early = select(*slot, models.ScheduleRun.fired_at).where(
        models.ScheduleRun.fired_at < models.ScheduleRun.due_at
    )
    yield RowCheck(8, subject, "Its slot of {due_at} fired before, at {fired_at}.", early)
    named = select(*slot, models.Submission.source).join(
        models.Submission, models.Submission.id == models.ScheduleRun.submission_id
    )
    source = func.substr("schedule:" + models.ScheduleRun.schedule, 1, 64)
    foreign = named.where(models.Submission.source != source)
    yield RowCheck(8, subject, "Its slot of {due_at} names a submission of {source}.", foreign)
    late = named.where(models.ScheduleRun.fired_at != models.Submission.created_at)
    yield RowCheck(8, subject, "Its slot of {due_at} fired at another time.", late)
    then = and_(
        models.Submission.source == source,
        models.Submission.created_at == models.ScheduleRun.fired_at,
    )
    lost = (
        select(*slot)
        .join(models.Submission, then)
        .where(models.ScheduleRun.submission_id.is_(None))
    )
    yield RowCheck(8, subject, "Its slot of {due_at} has lost what it submitted.", lost)


def _submissions() -> Iterator[RowCheck]:
    """9: a submission has its cases, at the places 0, 1, 2 ...

    Those of a comparison's two sides are stored before its first round, and stay empty if it makes
    none: no worker came while its budget lasted, or it was cancelled before. The baseline's also
    does where each job measures both sides, for such a job is of the contender's submission.
    """
    jobs = select(models.Job.id).where(models.Job.submission_id == models.Submission.id)
    row = models.ComparisonRow
    sides = row.baseline_submission, row.contender_submission
    to_come = union_all(select(sides[0]), select(sides[1]).where(row.rounds == 0))
    empty = select(models.Submission.id).where(~jobs.exists(), models.Submission.id.not_in(to_come))
    sentence = "It has no job: only a part of it was stored."
    yield RowCheck(9, "submission {id}", sentence, empty)
    last, cases = func.max(models.Job.position), func.count(models.Job.position.distinct())
    of_comparison = models.Submission.source.startswith(revisions.COMPARISON)
    gaps = (
        select(models.Job.submission_id, cases.label("cases"), last.label("last"))
        .where(models.Job.submission_id.not_in(select(models.Submission.id).where(of_comparison)))
        .group_by(models.Job.submission_id)
        .having(cases != last + 1)
    )
    sentence = "It has {cases} cases, and one at place {last}: a part of it is gone."
    yield RowCheck(9, "submission {submission_id}", sentence, gaps)
    owner = select(row.id).where(or_(*(side == models.Submission.id for side in sides)))
    side = select(models.Submission.id).where(of_comparison, ~owner.exists())
    yield RowCheck(ROWS, "submission {id}", "It is a side of no comparison.", side)


def _changes() -> Iterator[RowCheck]:
    """11: a change is at points of its series, and what refers to it is about that series."""
    first, last = aliased(models.Point), aliased(models.Point)
    at_first = and_(
        first.series_id == models.ChangeRow.series_id,
        first.result_id == models.ChangeRow.first_bad_result,
        first.revision == models.ChangeRow.first_bad,
        first.revision_at == models.ChangeRow.first_bad_at,
    )
    at_last = and_(
        last.series_id == models.ChangeRow.series_id, last.revision == models.ChangeRow.last_good
    )
    misplaced = or_(~select(first).where(at_first).exists(), ~select(last).where(at_last).exists())
    query = select(models.ChangeRow.id).where(misplaced)
    yield RowCheck(ROWS, "change {id}", "It is at no point of its series.", query)
    for model in (models.FindingSeries, models.ConfirmationRow):
        about = select(models.ChangeRow.id).join(model, model.change_id == models.ChangeRow.id)
        elsewhere = about.where(model.series_id != models.ChangeRow.series_id)
        sentence = f"{model.__tablename__} has it in another series."
        yield RowCheck(ROWS, "change {id}", sentence, elsewhere)
    half = models.Exclusion.undone_at.is_(None) != models.Exclusion.undone_by.is_(None)
    sentence = "It was undone by nobody, or at no time."
    yield RowCheck(ROWS, "exclusion {id}", sentence, select(models.Exclusion.id).where(half))


ROW_CHECKS = (
    *_first_seen(),
    *_points(),
    *_access(),
    *_groups_of_jobs(),
    *_slots(),
    *_submissions(),
    *_changes(),
)
