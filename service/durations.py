"""How long a suite takes: as its cases took before, else as its protocol says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import catalog
from benchmarks.contracts import AttemptState, JobState
from benchmarks.duration import expected_s
from benchmarks.suites import Suite
from service.models import Attempt, Job, Submission

SUBMISSIONS = 5
"""The last submissions of a suite that are looked at."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What measuring a suite will take one worker."""

    expected_s: float
    cases_measured_before: int
    """Cases whose time is the median of what they took before; the others' is the protocol's."""


def expectation(suite: Suite, taken_s: Mapping[str, float]) -> Expectation:
    """Sum up a suite, given the seconds that cases took before, by case key."""
    known = [catalog.normalise(case) for case in suite.cases]
    total_s = sum(taken_s.get(case.key, expected_s(case, suite.protocol)) for case in known)
    return Expectation(total_s, sum(case.key in taken_s for case in known))


def taken_before(session: Session, suite: str) -> dict[str, float]:
    """Seconds that each case of a suite took, by case key: the median over its last submissions."""
    last = (
        select(Submission.id)
        .where(Submission.suite == suite)
        .order_by(Submission.id.desc())
        .limit(SUBMISSIONS)
    )
    taken = (
        select(Job.id, Job.case_key, Attempt.started_at, Attempt.ended_at)
        .join(Attempt, Attempt.job_id == Job.id)
        .where(
            Job.submission_id.in_(list(session.scalars(last))),
            Attempt.state == AttemptState.SUCCEEDED,
            Job.state == JobState.SUCCEEDED,
        )
    )
    spent: dict[str, dict[str, float]] = {}
    for job_id, key, started_at, ended_at in session.execute(taken):
        if started_at is not None and ended_at is not None:
            jobs = spent.setdefault(key, {})  # a job's processes may have had a turn each
            jobs[job_id] = jobs.get(job_id, 0.0) + (ended_at - started_at).total_seconds()
    spans = {key: list(jobs.values()) for key, jobs in spent.items()}
    return {key: median(each) for key, each in spans.items()}
