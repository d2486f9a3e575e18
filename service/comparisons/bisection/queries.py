"""Bisections as the API and the pages show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from service import models
from service.analysis import bisection, gate
from service.comparisons.bisection import probe_pairs
from service.comparisons.bisection.probed import load_row
from service.comparisons.bisection.subject import BisectionDecision, Subject
from service.database import paging
from service.jobs import commit_ranges
from service.schemas import bisections as schemas
from service.wording import bisected

_NO_PAIR = "The pair was not measured."
_SAME_CODE = "Both ends ran the same code: check that the worker builds commits or has checkouts."


def load_bisection(session: Session, bisection_id: str) -> schemas.BisectionView:
    """One bisection with its commits, its probes and what is next.

    Raises:
        NotFound: there is no such bisection.
    """
    row = load_row(session, bisection_id)
    pairs = probe_pairs.pairs_of(session, row)
    search = probe_pairs.search_of(session, row, [one for one in pairs if not one.under_way])
    judgement = bisection.judged(search)
    request = schemas.BisectionRequest.model_validate(row.request)
    subject = Subject.model_validate(row.subject)
    commits = tuple(_commits(request, search, judgement))
    decided = _decision(row)
    rolled = _rolled(decided, pairs, request, subject)
    posterior = judgement.posterior
    following = next((one.places for one in pairs if one.under_way), judgement.next)
    return schemas.BisectionView(
        **dict(_summary(row, judgement)),
        probability=_probability(judgement) if decided is None else decided.probability,
        environment=0.0 if posterior is None else posterior.environment,
        **_named(decided, judgement),
        processes=search.processes,
        most_processes=search.most_processes,
        worker=next((one.worker for one in pairs if one.worker), request.worker),
        requires=dict(request.requires),
        commits=commits,
        probes=tuple(_probes(pairs, search, subject)),
        next=_next_words(row, judgement, following, commits),
        note=row.reason or _note(pairs, judgement) or rolled,
        page=f"/bisections/{row.id}",
    )


def list_bisections(
    session: Session, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> paging.Page[schemas.BisectionSummary]:
    """Bisections that meet ``conditions``, the newest first."""
    own = models.BisectionRow
    page = paging.newest_first(session, own, own.id, conditions, after, limit)
    return page.shown(_summary(row, None) for row in page.items)


def of_finding(session: Session, finding_id: str) -> schemas.BisectionSummary | None:
    """The newest bisection of a finding; None if there is none."""
    own = models.BisectionRow
    query = select(own).where(own.finding_id == finding_id).order_by(own.id.desc())
    row = session.scalars(query.limit(1)).first()
    return None if row is None else _summary(row, None)


def may_begin(
    session: Session,
    good: str | None,
    bad: str,
    now: datetime,
    here: Sequence[models.WorkerRow] | None = None,
) -> bool:
    """Return True if a worker that is ``here`` can list the commits between, and has not listed
    just one."""
    if good is None or commit_ranges.why_not(session, good, bad, now, here):
        return False
    known = commit_ranges.listed(session, good, bad)
    return known is None or len(known) > 1


def _summary(
    row: models.BisectionRow, judgement: bisection.Judgement | None
) -> schemas.BisectionSummary:
    request = schemas.BisectionRequest.model_validate(row.request)
    subject, decided = Subject.model_validate(row.subject), _decision(row)
    running = row.state == schemas.BisectionState.RUNNING
    stage = judgement.stage if judgement and running else schemas.BisectionStage.DONE
    if running and not row.listed:
        stage = schemas.BisectionStage.COMMITS
    elif running and judgement is None:  # a list judges nothing anew
        stage = schemas.BisectionStage.SEARCH if row.probed else schemas.BisectionStage.ENDS
    return schemas.BisectionSummary.of(
        row,
        stage=stage,
        outcome=None if decided is None else decided.outcome,
        sentence=_sentence(row, request, decided),
        good=request.commits[0].revision,
        bad=request.commits[-1].revision,
        case_key=subject.case.key,
        metric=subject.metric,
        finding=row.finding_id,
        source=request.source,
    )


def _sentence(
    row: models.BisectionRow, request: schemas.BisectionRequest, decided: BisectionDecision | None
) -> str:
    if decided is None:
        good = request.commits[0].revision
        return row.reason or ("Under way." if row.listed else bisected.listing_words(good))
    return decided.sentence(request.commits)


def _decision(row: models.BisectionRow) -> BisectionDecision | None:
    return None if row.decision is None else BisectionDecision.model_validate(row.decision)


def _named(decided: BisectionDecision | None, judgement: bisection.Judgement) -> dict[str, Any]:
    """The fields of the view that name culprits: the outcome's, or those verified so far."""
    if decided is not None:
        return {name: getattr(decided, name) for name in ("first", "last", "share", "others")}
    largest = judgement.named[0] if judgement.named else None
    return {
        "first": largest and largest.first,
        "last": largest and largest.last,
        "share": judgement.share,
        "others": tuple(map(schemas.OtherCulprit.model_validate, judgement.named[1:])),
    }


def _commits(
    request: schemas.BisectionRequest, search: bisection.Search, judgement: bisection.Judgement
) -> list[schemas.BisectedCommit]:
    count = len(request.commits) - 1
    shares = judgement.chances or (0.0,) * count
    usable = set(search.usable)
    return [
        schemas.BisectedCommit(
            place=place,
            **commit.model_dump(),
            probability=shares[place - 1] if place else 0.0,
            usable=place in usable,
        )
        for place, commit in enumerate(request.commits)
    ]


def _probes(
    pairs: Sequence[probe_pairs.ProbedPair], search: bisection.Search, subject: Subject
) -> Iterator[schemas.ProbeView]:
    under_way = (bisection.Probe(*one.places) for one in pairs if one.under_way)
    told_of = (*search.probes, *under_way)
    for number, (one, told) in enumerate(zip(pairs, told_of, strict=True)):
        difference = None if told.difference is None else subject.worse_by(told.difference)
        yield schemas.ProbeView(
            number=number,
            commit=told.commit,
            beside=told.beside,
            difference=difference,
            unusable=told.unusable,
            comparison=one.asked.comparison,
            job_id=one.job_id,
            under_way=one.under_way,
            note="" if difference is not None or one.under_way else _why(one),
        )


def _why(one: probe_pairs.ProbedPair) -> str:
    if one.asked.reason:
        return one.asked.reason
    if one.culprit is None:
        return _NO_PAIR
    _, side = one.culprit
    trouble = gate.Trouble(side.trouble) if side.trouble else gate.Trouble.MISSING
    return side.reason or f"{trouble.value}."


def _next_words(
    row: models.BisectionRow,
    judgement: bisection.Judgement,
    places: tuple[int, int] | None,
    commits: Sequence[schemas.BisectedCommit],
) -> str:
    if row.state != schemas.BisectionState.RUNNING:
        return ""
    if not row.listed:
        return bisected.listing_words(commits[0].revision)
    return bisected.next_words(places, commits, judgement.stage)


def _rolled(
    decided: BisectionDecision | None,
    pairs: Sequence[probe_pairs.ProbedPair],
    request: schemas.BisectionRequest,
    subject: Subject,
) -> str:
    """Say which packages the culprit moved, by what ran at it and at its parent."""
    if decided is None or decided.outcome not in schemas.BLAMED or decided.first is None:
        return ""
    if bisected.noun_of(request.commits[0].revision) == "release":
        return ""
    beside = [one.pair for one in pairs if one.places == (decided.last, decided.first - 1)]
    for pair in beside:
        if pair.baseline is not None and pair.contender is not None:
            before, after = pair.baseline.packages, pair.contender.packages
            if said := bisected.roll_words(before, after, subject.case.key):
                return said
    return ""


def _probability(judgement: bisection.Judgement) -> float:
    return 0.0 if judgement.posterior is None else max(judgement.posterior.groups)


def _note(pairs: Sequence[probe_pairs.ProbedPair], judgement: bisection.Judgement) -> str:
    """What a pair waits for, or why nothing could be measured last, where that decides."""
    if waiting := next((one.reason for one in pairs if one.under_way), ""):
        return waiting
    if any(one.same_code for one in pairs if one.places == pairs[0].places):  # the ends
        return _SAME_CODE
    if judgement.outcome is not schemas.BisectionOutcome.UNDECIDED or not pairs:
        return ""
    last = pairs[-1]
    return _why(last) if last.culprit is not None or last.asked.reason else ""
