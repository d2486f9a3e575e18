"""Submits a suite or a case at several commits, each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from benchmarks.catalog import catalog
from benchmarks.catalog.precision_tiers import Tier
from benchmarks.contracts import Case, JobState, Purpose
from cli.client import ServiceClient
from cli.output.lines import remark
from service.schemas.jobs import JobView, SubmissionSummary, Submitted

_LISTED = 200
"""Submissions of a commit that are looked at, the newest first."""


def submit_each(
    client: ServiceClient, requests: Sequence[Mapping[str, Any]], *, again: bool
) -> Iterator[Submitted]:
    """Submit each request, and yield the answer; what was submitted before is said and skipped.

    ``again`` submits everything. What was cancelled does not count as submitted.
    """
    for request in requests:
        before = None if again else _before(client, request)
        if before is None:
            yield client.submit(request)
        else:
            remark(
                f"{request['revision']} has the submission {before.id} of {_name(request)}: "
                "skipped. --again submits it again."
            )


def _name(request: Mapping[str, Any]) -> str:
    return str(request.get("suite") or Case.model_validate(request["case"]).key)


def _before(client: ServiceClient, request: Mapping[str, Any]) -> SubmissionSummary | None:
    """The newest submission of the same suite or case at the same commit, if there is one."""
    suite, project = request.get("suite"), request.get("project")
    there = client.submissions(revision=request["revision"], suite=suite, limit=_LISTED).items
    for one in there:
        mine = one.suite == suite and project in (None, one.project)
        if mine and _covers(client.submission(one.id).jobs, request):
            return one
    return None


def _covers(jobs: Sequence[JobView], request: Mapping[str, Any]) -> bool:
    """Return True if the jobs of a submission measure what is asked for.

    A quick look makes no history, and takes nothing from it.
    """
    quick = request.get("tier") == Tier.QUICK
    counted = [
        job.case
        for job in jobs
        if job.state is not JobState.CANCELLED and (quick or job.purpose is Purpose.HISTORY)
    ]
    if request.get("suite"):
        return bool(counted) and {case.workload for case in counted}.issuperset(
            request.get("only", ())
        )
    return any(_same(case, Case.model_validate(request["case"])) for case in counted)


def _same(submitted: Case, asked: Case) -> bool:
    """Return True if a case as the service keeps it is the one that is asked for."""
    with suppress(ValueError):  # the service may know more names than this version
        asked = catalog.normalise(asked)
    alike = (submitted.workload, submitted.axes) == (asked.workload, asked.axes)
    return alike and asked.preset in ("auto", submitted.preset)
