"""Checks each comparison: its sides, its jobs, its notes of results, and what a pass rests on.

The gate is not asked again here. A pass is compared with the stored results themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.diagnosis import disturbances
from service import models
from service.analysis import gate
from service.analysis.gate import noise
from service.database.paging import batched
from service.history import queries, revisions
from service.history.types import StoredResult
from service.maintenance.verify import agreement
from service.maintenance.verify.values import Breach
from service.schemas import gate as schemas

GATE = 10
BATCH = 16
"""Documents in memory at once: each may have many megabytes."""


def every_comparison(session: Session) -> Iterator[Breach]:
    """11: what is wrong with each comparison, the oldest first."""
    ids = session.scalars(select(models.ComparisonRow.id).order_by(models.ComparisonRow.id)).all()
    for name in ids:
        row = session.get_one(models.ComparisonRow, name)
        for sentence in (*_request_faults(row), *_sides(session, row), *_tries(session, row)):
            yield Breach(agreement.ROWS, f"comparison {name}", sentence)
        session.expunge_all()


def _sides(session: Session, row: models.ComparisonRow) -> Iterator[str]:
    sides = (
        (schemas.Side.BASELINE, row.baseline_submission, row.baseline),
        (schemas.Side.CONTENDER, row.contender_submission, row.contender),
    )
    source = f"{revisions.COMPARISON}{row.id}"
    for side, submission, revision in sides:
        stored = session.get(models.Submission, submission)
        facts = stored and (stored.source, stored.revision, stored.project, stored.created_at)
        if facts != (source, revision, row.project, row.created_at):
            yield f"Submission {submission} is not its {side.value}'s."


def _request_faults(row: models.ComparisonRow) -> Iterator[str]:
    """Yield each way in which the row differs from its request."""
    if not agreement.names_moment(row.id, row.created_at):
        yield f"It was not made at {row.created_at}, as its name tells."
    try:
        request = row.parsed_request
    except ValidationError:
        yield "Its request cannot be read."
        return
    requested = (request.baseline, request.contender, request.source, request.project or "")
    if requested != (row.baseline, row.contender, row.source, row.project):
        yield "It is of other revisions, another source or another project than its request."
    if row.ends_at != row.created_at + timedelta(seconds=request.budget_s):
        yield f"It ends at {row.ends_at}, and its budget is {request.budget_s} s."
    yield from _noise_faults(row)


def _noise_faults(row: models.ComparisonRow) -> Iterator[str]:
    """Yield what is wrong with the noise that was known: one record for each case, once begun."""
    if (row.noise is not None) != (row.rounds > 0):
        yield f"It has {row.rounds} rounds, and the noise that it knew says otherwise."
    if row.noise is None:
        return
    try:
        known = noise.STORED.validate_python(row.noise)
    except ValidationError:
        yield "The noise that it knew cannot be read."
        return
    if len(known) != len(row.cases):
        yield f"It has {len(row.cases)} cases, and knew the noise of {len(known)}."


def _decided(row: models.ComparisonRow, tries: Sequence[models.ComparisonJob]) -> Iterator[str]:
    """Yield each way in which the decision disagrees with the state, verdicts or attempts."""
    ended = row.state != models.ComparisonState.RUNNING
    if (row.decided_at is not None) != ended:
        yield f"It is {row.state}, and its time of ending says otherwise."
    if (row.decision is not None) != (row.state == models.ComparisonState.DECIDED):
        yield f"It is {row.state}, and its decision says otherwise."
    if row.decision is None:
        return
    try:
        decision = gate.Decision.model_validate(row.decision)
    except ValidationError:
        yield "Its decision cannot be read."
        return
    verdicts = {case.verdict for case in decision.cases}
    worse = bool(verdicts & schemas.REGRESSIONS)
    good = verdicts <= schemas.GOOD | {schemas.CaseVerdict.UNSUPPORTED}
    passed = decision.outcome is schemas.Outcome.PASS
    if worse != (decision.outcome is schemas.Outcome.REGRESSION) or (passed and not good):
        yield f"It was decided as {decision.outcome.value}, and its cases say otherwise."
    used = {(one.job_id, one.attempt, one.worker, one.result_id) for one in decision.used}
    if used != {(one.job_id, one.attempt, one.worker, one.result_id) for one in tries}:
        yield "Its decision is of other attempts."


def _tries(session: Session, row: models.ComparisonRow) -> Iterator[str]:
    query = (
        select(models.ComparisonJob, models.Job)
        .outerjoin(models.Job, models.Job.id == models.ComparisonJob.job_id)
        .where(models.ComparisonJob.comparison_id == row.id)
        .order_by(models.ComparisonJob.place)
    )
    tries = session.execute(query).all()
    yield from _decided(row, [one for one, _ in tries])
    if [one.place for one, _ in tries] != list(range(len(tries))):
        yield "Its attempts are not numbered 0, 1, 2 ...: one is gone."
    pairs = max((one.pair + 1 for one, _ in tries), default=0)
    if not pairs <= row.rounds <= len(tries):
        yield f"It has {row.rounds} rounds, and {len(tries)} attempts in up to {pairs} pairs."
    if not tries and row.worker != row.request.get("worker"):
        yield f"It is pinned to {row.worker}, and nothing was ever measured for it."
    for batch in batched(tries, BATCH):
        stored = queries.counted_results(session, [one.job_id for one, _ in batch])
        for one, job in batch:
            if job is not None:
                for fault in (*_misplaced(row, one, job), *_misnoted(one, job, stored)):
                    yield f"Its attempt {one.place}, job {one.job_id}, {fault}."


def _misplaced(
    row: models.ComparisonRow, one: models.ComparisonJob, job: models.Job
) -> Iterator[str]:
    """Yield each way in which a job is not what the comparison submitted for this attempt."""
    both = job.spec.get("duet") is not None
    baseline = one.side == schemas.Side.BASELINE and not both
    at = row.baseline_submission if baseline else row.contender_submission
    place = one.place - one.place % 2 if both else one.place
    if (job.submission_id, job.position) != (at, place):
        yield f"is not of the {one.side}, or stands elsewhere in its submission"
    cases: Any = row.cases
    of_place = cases[one.case_place : one.case_place + 1] if isinstance(cases, list) else []
    if [agreement.key_of(case) for case in of_place] != [job.case_key]:
        yield f"is of another case than its case {one.case_place}"
    if job.spec.get("requires", {}).get("worker") != row.worker:
        yield f"is for another worker than {row.worker}"


def _misnoted(
    one: models.ComparisonJob, job: models.Job, stored: Mapping[str, StoredResult]
) -> Iterator[str]:
    """Yield each difference of an attempt's note from its result; a note may lack newer fields."""
    if one.measured is None:
        return
    result = stored.get(one.job_id)
    posted = (result.attempt, result.worker, result.id) if result else (None, None, None)
    if (one.attempt, one.worker, one.result_id) != posted:
        yield f"is noted with attempt {one.attempt} of {one.worker}, result {one.result_id}"
    noted = (
        gate.Measured.of(_of_side(one, result))
        if result
        else gate.Measured.missing(job.reason[:500])
    )
    due = noted.model_dump(mode="json")
    try:
        gate.Measured.model_validate(one.measured)
    except ValidationError:
        yield "has a note that cannot be read"
        return
    if {name: due.get(name) for name in one.measured} != one.measured:
        yield "has a note that is not what its result says"


def _of_side(one: models.ComparisonJob, stored: StoredResult) -> contracts.Result:
    return gate.side_of(stored.result, schemas.Side(one.side))


def every_pass(session: Session) -> Iterator[list[Breach]]:
    """Yield the breaches of each comparison that passed, the oldest first."""
    decided = select(models.ComparisonRow).where(
        models.ComparisonRow.state == models.ComparisonState.DECIDED
    )
    for row in session.scalars(decided.order_by(models.ComparisonRow.id)):
        if row.decision is not None and row.decision.get("outcome") == schemas.Outcome.PASS:
            yield list(_breaches(session, row))


def _breaches(session: Session, row: models.ComparisonRow) -> Iterator[Breach]:
    query = (
        select(models.ComparisonJob)
        .where(models.ComparisonJob.comparison_id == row.id)
        .order_by(models.ComparisonJob.place)
    )
    tries = session.scalars(query).all()
    rested_on = _rested_on(row)
    subject = f"comparison {row.id}"
    if row.baseline == row.contender:
        yield Breach(GATE, subject, "it passed, and both of its sides are one revision")
    if not rested_on:
        yield Breach(GATE, subject, "it passed, and rests on no attempt at all")
    for place, case in enumerate(row.cases):
        of_place = [one for one in tries if one.case_place == place]
        name = contracts.Case.model_validate(case).key
        for sentence in _faults(session, of_place, rested_on):
            yield Breach(GATE, subject, f"it passed, and {sentence} for {name}")


def _rested_on(row: models.ComparisonRow) -> frozenset[str]:
    used = (row.decision or {}).get("used", [])
    return frozenset(one["job_id"] for one in used if one.get("compared"))


def _faults(
    session: Session, tries: Sequence[models.ComparisonJob], rested_on: frozenset[str]
) -> Iterator[str]:
    """Yield each reason why one case's attempts do not carry a pass."""
    stored = _results(session, [one.job_id for one in tries])
    if tries and all(_unsupported(one, stored) for one in tries):
        return  # the device cannot do this case at either revision: there is nothing to compare
    compared = [one for one in tries if one.job_id in rested_on]
    sides: dict[int, set[str]] = {}
    for one in compared:
        sides.setdefault(one.pair, set()).add(one.side)
        if one.job_id not in stored:
            yield f"the result of job {one.job_id} is missing"
            continue
        result = _of_side(one, stored[one.job_id])
        if result.status is not contracts.Status.OK:
            yield f"job {one.job_id} ended {result.status.value}"
        elif names := ", ".join(disturbances.disturbances(result)):
            yield f"job {one.job_id} was measured on a disturbed device ({names})"
        elif gate.Measured.of(result).model_dump(mode="json") != one.measured:
            yield f"what was compared of job {one.job_id} is not what its result says"
    if not any(len(pair) == 2 for pair in sides.values()):
        yield "no pair of both revisions was compared"
    elif any(len(pair) != 2 for pair in sides.values()):
        yield "one revision was measured in a pair that lacks the other"
    devices = {(one.measured or {}).get("device") for one in compared}
    if len(devices) > 1 or len({one.worker for one in compared}) > 1:
        yield "the two revisions were measured on different devices"
    yield from _code(compared, stored)


def _code(
    compared: Sequence[models.ComparisonJob], stored: Mapping[str, StoredResult]
) -> Iterator[str]:
    """Yield the reason, if any, why the two sides are not known to have run different code."""
    ran: dict[str, set[str]] = {}
    for one in compared:
        if one.job_id in stored:
            software = gate.Measured.of(_of_side(one, stored[one.job_id])).software
            ran.setdefault(one.side, set()).add(software)
    sides = list(ran.values())
    if any("" in side for side in sides):
        yield "nobody knows which code ran"
    elif len(sides) == 2 and sides[0] & sides[1]:
        yield "both revisions ran the same code"


def _unsupported(one: models.ComparisonJob, stored: Mapping[str, StoredResult]) -> bool:
    if one.job_id not in stored:
        return False
    return _of_side(one, stored[one.job_id]).status is contracts.Status.UNSUPPORTED


def _results(session: Session, job_ids: Sequence[str]) -> dict[str, StoredResult]:
    by_job: dict[str, StoredResult] = {}
    for some in batched(job_ids, BATCH):
        by_job |= queries.counted_results(session, some)
    return by_job
