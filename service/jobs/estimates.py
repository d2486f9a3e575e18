"""Estimates how long a suite takes: as its cases took before, else as its protocol says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from benchmarks.catalog import catalog
from benchmarks.catalog.duration import expected_s
from benchmarks.catalog.suites import Suite
from benchmarks.contracts import AttemptState, JobSpec, JobState
from service.models import Attempt, Job, Submission

SUBMISSIONS = 5
"""The last submissions of a suite that are looked at."""


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """The expected time of measuring one case of a suite on one worker."""

    case: str
    """The key of its normal form, which its jobs have."""
    expected_s: float
    measured_before: bool
    """Whether that is the median of what it took before; otherwise it is the protocol's."""


def expectations(suite: Suite, taken_s: Mapping[str, float]) -> list[DurationEstimate]:
    """Estimate the time of each case of a suite from the seconds that cases took before, by key."""
    known = [catalog.normalise(case) for case in suite.cases]
    return [
        DurationEstimate(
            case.key,
            taken_s.get(case.key, expected_s(case, suite.protocol)),
            measured_before=case.key in taken_s,
        )
        for case in known
    ]


def taken_before(session: Session, suite: Suite) -> dict[str, float]:
    """Seconds that each case of a suite takes, by case key: the median over its last submissions.

    What was measured with more processes than the suite's, or in another tier, is told for the
    suite's own protocol: whoever asks for as much again reckons that in, and would do so twice.
    """
    last = (
        select(Submission.id)
        .where(Submission.suite == suite.name)
        .order_by(Submission.id.desc())
        .limit(SUBMISSIONS)
    )
    done = (
        Job.submission_id.in_(list(session.scalars(last))),
        Job.state == JobState.SUCCEEDED,
    )
    spent = _spent(session, *done)
    taken: dict[str, list[float]] = {}
    for job_id, key, spec in session.execute(select(Job.id, Job.case_key, Job.spec).where(*done)):
        if job_id in spent:
            own = JobSpec.model_validate(spec)
            usual = expected_s(own.case, suite.protocol) / expected_s(own.case, own.protocol)
            taken.setdefault(key, []).append(spent[job_id] * usual)
    return {key: median(each) for key, each in taken.items()}


def _spent(session: Session, *done: ColumnElement[bool]) -> dict[str, float]:
    """Seconds of each job's attempts: its processes may have had a turn each."""
    taken = (
        select(Job.id, Attempt.started_at, Attempt.ended_at)
        .join(Attempt, Attempt.job_id == Job.id)
        .where(*done, Attempt.state == AttemptState.SUCCEEDED)
    )
    spent: dict[str, float] = {}
    for job_id, started_at, ended_at in session.execute(taken):
        if started_at is not None and ended_at is not None:
            spent[job_id] = spent.get(job_id, 0.0) + (ended_at - started_at).total_seconds()
    return spent
