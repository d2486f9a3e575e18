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
    """What measuring one case of a suite will take one worker."""

    case: str
    """The key of its normal form, which its jobs have."""
    expected_s: float
    measured_before: bool
    """Whether that is the median of what it took before; otherwise it is the protocol's."""


def expectations(suite: Suite, taken_s: Mapping[str, float]) -> list[Expectation]:
    """What each case of a suite will take, given the seconds that cases took before, by key."""
    known = [catalog.normalise(case) for case in suite.cases]
    return [
        Expectation(
            case.key,
            taken_s.get(case.key, expected_s(case, suite.protocol)),
            measured_before=case.key in taken_s,
        )
        for case in known
    ]


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
