"""Estimates how long a suite takes: as its cases took before, else as its protocol says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from benchmarks.catalog import catalog
from benchmarks.catalog.duration import expected_s
from benchmarks.catalog.suites import Suite
from benchmarks.contracts import JobSpec, JobState
from service.models import Attempt, Job, Submission
from service.schemas.catalog import CaseExpectation

SUBMISSIONS = 5
"""The last submissions of a suite that are looked at."""


def expectations(suite: Suite, taken_s: Mapping[str, float]) -> list[CaseExpectation]:
    """Estimate the time of each case of a suite from the seconds that cases took before, by key."""
    known = [catalog.normalise(case) for case in suite.cases]
    return [
        CaseExpectation(
            case=case.key,
            expected_s=taken_s.get(case.key, expected_s(case, suite.protocol)),
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
    taken: dict[str, list[float]] = {}
    for (case_key, spec), spent_s in _spent(session, list(session.scalars(last))):
        job = JobSpec.model_validate(spec)
        usual = expected_s(job.case, suite.protocol) / expected_s(job.case, job.protocol)
        taken.setdefault(case_key, []).append(spent_s * usual)
    return {key: median(seconds) for key, seconds in taken.items()}


def _spent(
    session: Session, submissions: Sequence[str]
) -> Iterator[tuple[tuple[str, dict[str, Any]], float]]:
    """Yield key and first spec of each case that succeeded, and the seconds of its replicates."""
    query = (
        select(Job.case_key, Job.spec, Job.state, Attempt.started_at, Attempt.ended_at)
        .outerjoin(Attempt, and_(Attempt.job_id == Job.id, Attempt.number == Job.attempt))
        .where(Job.submission_id.in_(submissions))
        .order_by(Job.group_id, Job.replicate)
    )
    for _, rows in groupby(session.execute(query.add_columns(Job.group_id)), lambda row: row[-1]):
        jobs = list(rows)
        known = [job for job in jobs if job.started_at and job.ended_at]
        times = [(job.ended_at - job.started_at).total_seconds() for job in known]
        if all(job.state == JobState.SUCCEEDED for job in jobs):
            yield (jobs[0].case_key, jobs[0].spec), sum(times)
