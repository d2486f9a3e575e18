"""Moves bisections on: reads what the pairs said, then asks the next one or decides."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from service import comparisons, models
from service.analysis.bisection import Judgement, Search, judged
from service.comparisons.advance import advance_each
from service.comparisons.bisection import probe_pairs
from service.comparisons.bisection.ordered import with_listed
from service.comparisons.bisection.subject import AskedProbe, BisectionDecision, Subject
from service.database.session import Database, found, rows
from service.history import revisions
from service.outbox import events
from service.schemas.bisections import BisectionRequest, BisectionState, OtherCulprit
from service.schemas.errors import ServiceError
from service.wording.bisected import noun_of

log = logging.getLogger(__name__)


def advance_after(database: Database, after: str = "") -> Iterator[tuple[str, bool]]:
    """Move running bisections on, those behind ``after`` first; yield each, and if it ended."""
    own = models.BisectionRow
    running = select(own.id).where(own.state == BisectionState.RUNNING).order_by(own.id)
    return advance_each(database, running, after, advance, "bisection")


def advance(session: Session, bisection_id: str, now: datetime) -> bool:
    """Move one bisection on as far as it goes now; say whether this ended it.

    Raises:
        NotFound: there is no such bisection.
    """
    row = load_row(session, bisection_id)
    if row.state == BisectionState.RUNNING and not row.listed:
        _take_commits(session, row, now)
        row = load_row(session, bisection_id)
    while row.state == BisectionState.RUNNING and row.listed:
        pairs = probe_pairs.pairs_of(session, row)
        if any(one.under_way for one in pairs):
            return False
        search = probe_pairs.search_of(session, row, pairs)
        judgement = judged(search)
        if judgement.next is None:
            return _decide(session, row, search, judgement, now)
        if not _ask(session, row, pairs, judgement.next, now):
            return False
        row = load_row(session, bisection_id)
    return False


def cancel(session: Session, bisection_id: str, now: datetime) -> None:
    """Stop a bisection and its pair under way; one that has ended stays as it is.

    Raises:
        NotFound: there is no such bisection.
    """
    row = load_row(session, bisection_id)
    ended = {"state": BisectionState.CANCELLED, "decided_at": now, "reason": "Cancelled."}
    if _change(session, row, **ended):
        for one in probe_pairs.pairs_of(session, row):
            if one.under_way and one.asked.comparison is not None:
                comparisons.cancel(session, one.asked.comparison, now)


def load_row(session: Session, bisection_id: str) -> models.BisectionRow:
    """The row as it is now.

    Raises:
        NotFound: there is no such bisection.
    """
    return found(session, models.BisectionRow, bisection_id, populate_existing=True)


def _take_commits(session: Session, row: models.BisectionRow, now: datetime) -> None:
    """Take over what a worker listed between the ends; end the bisection if none can or does."""
    request = BisectionRequest.model_validate(row.request)
    ends = request.commits[0].revision, request.commits[-1].revision
    known = session.get_one(models.CommitRangeRow, ends, populate_existing=True)
    if known.listed_at is not None:
        stored = with_listed(request, known).model_dump(mode="json", include={"commits"})
        unlisted = models.BisectionRow.listed.is_(False)
        _change(session, row, unlisted, request=row.request | stored, listed=True)
    elif known.reason or now - row.created_at > timedelta(seconds=probe_pairs.WAITS_S):
        nobody = "no worker that builds both ends listed them within a day."
        what = f"{noun_of(known.bad)}s"
        reason = f"Its {what} could not be listed: {known.reason or nobody}"
        if _change(session, row, state=BisectionState.CANCELLED, decided_at=now, reason=reason):
            _tell(session, row, "no outcome", reason, now)


def _ask(
    session: Session,
    row: models.BisectionRow,
    pairs: list[probe_pairs.ProbedPair],
    places: tuple[int, int],
    now: datetime,
) -> bool:
    """Ask for one more pair; return True if there is more to judge at once."""
    count = len(pairs)
    if not _change(session, row, models.BisectionRow.probed == count, probed=count + 1):
        return False  # another replica was faster
    asked = _compare(session, row, pairs, places, now)
    probes = [*row.probes, asked.model_dump(mode="json", exclude_defaults=True)]
    _change(session, row, probes=probes)
    return asked.comparison is None


def _compare(
    session: Session,
    row: models.BisectionRow,
    pairs: list[probe_pairs.ProbedPair],
    places: tuple[int, int],
    now: datetime,
) -> AskedProbe:
    """Start the comparison of a pair; where no worker has a commit, say which."""
    request = BisectionRequest.model_validate(row.request)
    subject = Subject.model_validate(row.subject)
    worker = next((one.worker for one in pairs if one.worker), request.worker)
    wanted = probe_pairs.comparison_of(
        request, subject, places, len(pairs), worker, f"{models.PROBES}{row.id}"
    )
    try:
        with session.begin_nested():
            comparison = comparisons.start(session, wanted, now).comparison_id
    except ServiceError as error:
        tried = {place for one in pairs if one.pair.whole for place in one.places}
        unusable = next((place for place in places if place not in tried), None)
        reason = error.detail[:500]
        return AskedProbe(commit=places[0], beside=places[1], unusable=unusable, reason=reason)
    for place in places:
        said = request.commits[place]
        revisions.describe(session, said.revision, said.author or None, said.title or None)
    comparisons.advance(session, comparison, now)
    return AskedProbe(commit=places[0], beside=places[1], comparison=comparison)


def _decide(
    session: Session, row: models.BisectionRow, search: Search, judgement: Judgement, now: datetime
) -> bool:
    assert judgement.outcome is not None
    decision = BisectionDecision(
        outcome=judgement.outcome,
        probability=judgement.probability,
        environment=0.0 if judgement.posterior is None else judgement.posterior.environment,
        first=judgement.first or None,
        last=judgement.last or None,
        share=judgement.share,
        processes=search.processes,
        others=tuple(OtherCulprit(**asdict(one)) for one in judgement.named[1:]),
    )
    ended = {"state": BisectionState.DONE, "decided_at": now}
    log.info("bisection %s: %s", row.id, decision.outcome.value)
    if not _change(session, row, **ended, decision=decision.model_dump(mode="json")):
        return False
    commits = BisectionRequest.model_validate(row.request).commits
    _tell(session, row, decision.outcome.value, decision.sentence(commits), now)
    return True


def _tell(
    session: Session, row: models.BisectionRow, outcome: str, sentence: str, now: datetime
) -> None:
    """Have other programs told how a bisection ended."""
    subject = Subject.model_validate(row.subject)
    headline = f"{subject.metric} of {subject.case.key}: {outcome.replace('_', ' ')}"
    told = events.News(
        models.EventKind.BISECTION_ENDED,
        headline,
        sentence,
        row.id,
        row.project,
        workload=subject.case.workload,
        outcome=outcome,
    )
    events.write(session, told, now)


def _change(
    session: Session, row: models.BisectionRow, *seen: ColumnElement[bool], **values: object
) -> bool:
    """Change a bisection if it still runs and is as seen; say whether it was."""
    own = models.BisectionRow
    same = own.id == row.id, own.state == BisectionState.RUNNING
    return rows(session, update(own).where(*same, *seen).values(**values)) == 1
