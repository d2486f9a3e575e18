"""Stores a bisection; the first probe follows when it is moved on."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from service import models
from service.comparisons import worker_choice
from service.comparisons.bisection import find_subject
from service.comparisons.bisection.probe_pairs import comparison_of
from service.comparisons.start import specs_of
from service.database.session import new_id
from service.jobs import commit_ranges
from service.schemas import bisections as schemas
from service.schemas import errors
from service.schemas.comparisons import ComparisonRequest


def start(session: Session, request: schemas.BisectionRequest, now: datetime) -> str:
    """Store a bisection, and return its id.

    Raises:
        NotFound: there is no such finding.
        Invalid: the finding has no change between these ends, or nobody can list its commits.
        UnknownChoice: a name that the catalog does not have, or an end that no worker has.
        Impossible: a combination that cannot run.
    """
    request, listed = _with_commits(session, _owned(session, request), now)
    subject = find_subject.of_request(session, request)
    ends = comparison_of(request, subject, (len(request.commits) - 1, 0), 0, request.worker)
    if request.finding is not None and request.worker is None:
        worker = _who_measured(session, request.finding, ends, now)
        request = request.model_copy(update={"worker": worker})
        ends = ends.model_copy(update={"worker": worker})
    specs = specs_of(ends)
    if why := worker_choice.lacking(session, ends, now):
        raise errors.UnknownChoice(why)
    stored = request.model_dump(mode="json", exclude=set() if request.project else {"project"})
    row = models.BisectionRow(
        id=new_id(now),
        state=schemas.BisectionState.RUNNING,
        finding_id=request.finding,
        request=stored,
        listed=listed,
        subject=subject.model_copy(update={"case": specs[0].case}).model_dump(mode="json"),
        probes=[],
        probed=0,
        project=request.project or "",
        created_at=now,
        reason="",
    )
    session.add(row)
    session.flush()
    return row.id


def _owned(session: Session, request: schemas.BisectionRequest) -> schemas.BisectionRequest:
    """The request as it is of the finding's project, if it is about one."""
    finding = request.finding and session.get(models.FindingRow, request.finding)
    if not finding or not finding.project:
        return request
    if request.project not in (None, finding.project):
        raise errors.Invalid(f"The finding is of the project {finding.project}: leave it out.")
    return request.model_copy(update={"project": finding.project})


def _with_commits(
    session: Session, request: schemas.BisectionRequest, now: datetime
) -> tuple[schemas.BisectionRequest, bool]:
    """The request with all its commits; with its ends alone, and False, until they are listed."""
    if request.commits:
        return request, True
    if request.ends is None:
        finding = find_subject.bisectable(session, request.finding)
        assert finding.last_good is not None
        ends = finding.last_good, finding.first_bad
    else:
        ends = request.ends.good, request.ends.bad
    known = commit_ranges.ask(session, *ends, now)
    return with_listed(request, known), known.listed_at is not None


def with_listed(
    request: schemas.BisectionRequest, known: models.CommitRangeRow
) -> schemas.BisectionRequest:
    """The request with the commits of a range; with its ends alone where nobody listed it yet."""
    between = [
        schemas.RangeCommit(revision=one.commit, author=one.author, title=one.title)
        for one in commit_ranges.commits_of(known)
    ]
    after = between or [schemas.RangeCommit(revision=known.bad)]
    commits = (schemas.RangeCommit(revision=known.good), *after)
    return request.model_copy(update={"commits": commits, "ends": None})


def _who_measured(
    session: Session, finding: str, ends: ComparisonRequest, now: datetime
) -> str | None:
    """A worker that has measured the finding's series, for other hardware says nothing of it.

    The one with the least to do that is there and has both ends; else one that may come back.
    """
    of_it = models.FindingSeries.finding_id == finding
    query = (
        select(models.Point.worker)
        .join(models.FindingSeries, models.FindingSeries.series_id == models.Point.series_id)
        .where(of_it, models.FindingSeries.place == 0)
    )
    known = sorted(name for name in session.scalars(query.distinct()) if name)
    strangers = tuple(worker_choice.present(session, ends, now).keys() - set(known))
    here = ends.model_copy(update={"avoid": strangers})
    return worker_choice.choose(session, here, now) or next(iter(known), None)
