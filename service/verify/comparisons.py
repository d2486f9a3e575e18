"""What must be true of each comparison: its two sides, its jobs, and what it noted of them.

Whether a pass is carried by its data is for `service.verify.gates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Case
from service import results, revisions
from service.gate import Measured, Side
from service.models import ComparisonRow, Job, Submission, TryRow
from service.results import StoredResult
from service.verify.agreement import ROWS
from service.verify.values import Breach

BATCH = 16
"""Documents in memory at once: each may have many megabytes."""


def every_comparison(session: Session) -> Iterator[Breach]:
    """11: what is wrong with each comparison, the oldest first."""
    ids = session.scalars(select(ComparisonRow.id).order_by(ComparisonRow.id)).all()
    for name in ids:
        row = session.get_one(ComparisonRow, name)
        for sentence in (*_sides(session, row), *_tries(session, row)):
            yield Breach(ROWS, f"comparison {name}", sentence)
        session.expunge_all()
    named = (ComparisonRow.baseline_submission, ComparisonRow.contender_submission)
    owner = select(ComparisonRow.id).where(or_(*(side == Submission.id for side in named)))
    sides = Submission.source.startswith(revisions.COMPARISON)
    for name in session.scalars(select(Submission.id).where(sides, ~owner.exists()).limit(100)):
        yield Breach(ROWS, f"submission {name}", "It is a side of no comparison.")


def _sides(session: Session, row: ComparisonRow) -> Iterator[str]:
    sides = (
        (Side.BASELINE, row.baseline_submission, row.baseline),
        (Side.CONTENDER, row.contender_submission, row.contender),
    )
    source = f"{revisions.COMPARISON}{row.id}"
    for side, submission, revision in sides:
        found = session.get(Submission, submission)
        told = found and (found.source, found.revision, found.project, found.created_at)
        if told != (source, revision, row.project, row.created_at):
            yield f"Submission {submission} is not its {side.value}'s."
    asked = row.request
    if (asked.get("baseline"), asked.get("contender")) != (row.baseline, row.contender):
        yield "Its request is for other revisions."


def _tries(session: Session, row: ComparisonRow) -> Iterator[str]:
    wanted = (
        select(TryRow, Job)
        .outerjoin(Job, Job.id == TryRow.job_id)
        .where(TryRow.comparison_id == row.id)
        .order_by(TryRow.place)
    )
    tries = session.execute(wanted).all()
    if [one.place for one, _ in tries] != list(range(len(tries))):
        yield "Its attempts are not numbered 0, 1, 2 ...: one is gone."
    pairs = max((one.pair + 1 for one, _ in tries), default=0)
    if not pairs <= row.rounds <= len(tries):
        yield f"It has {row.rounds} rounds, and {len(tries)} attempts in up to {pairs} pairs."
    if not tries and row.worker != row.request.get("worker"):
        yield f"It is pinned to {row.worker}, and nothing was ever measured for it."
    for start in range(0, len(tries), BATCH):
        batch = tries[start : start + BATCH]
        stored = results.counted_results(session, [one.job_id for one, _ in batch])
        for one, job in batch:
            if job is not None:
                for fault in (*_misplaced(row, one, job), *_misnoted(one, job, stored)):
                    yield f"Its attempt {one.place}, job {one.job_id}, {fault}."


def _misplaced(row: ComparisonRow, one: TryRow, job: Job) -> Iterator[str]:
    """How a job is not what the comparison submitted for this attempt."""
    baseline = one.side == Side.BASELINE
    at = row.baseline_submission if baseline else row.contender_submission
    if (job.submission_id, job.position) != (at, one.place):
        yield f"is not of the {one.side}, or stands elsewhere in its submission"
    asked: Sequence[Any] = row.cases[one.case_place : one.case_place + 1]
    if [_key(case) for case in asked] != [job.case_key]:
        yield f"is of another case than its case {one.case_place}"
    if job.spec.get("requires", {}).get("worker") != row.worker:
        yield f"is for another worker than {row.worker}"


def _key(case: Any) -> str:
    return Case.model_validate(case).key


def _misnoted(one: TryRow, job: Job, stored: Mapping[str, StoredResult]) -> Iterator[str]:
    """How the note of an attempt differs from its result. A note may lack what is newer."""
    if one.measured is None:
        return
    result = stored.get(one.job_id)
    found = (result.attempt, result.worker, result.id) if result else (None, None, None)
    if (one.attempt, one.worker, one.result_id) != found:
        yield f"is noted with attempt {one.attempt} of {one.worker}, result {one.result_id}"
    told = Measured.of(result.result) if result else Measured.missing(job.reason[:500])
    due = told.model_dump(mode="json")
    try:
        Measured.model_validate(one.measured)
    except ValidationError:
        yield "has a note that cannot be read"
        return
    if {name: due.get(name) for name in one.measured} != one.measured:
        yield "has a note that is not what its result says"
