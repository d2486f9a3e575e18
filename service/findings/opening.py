"""Changes that nobody has been told of become findings: one per cause, announced once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from benchmarks.contracts import workload_of
from service import revisions
from service.attribution import Attribution, Cause
from service.detection.judgement import ChangePoint
from service.errors import Conflict, DatabaseUnavailable
from service.findings import lifecycle, read, rules
from service.findings.follow import takes_back
from service.findings.question import explain
from service.findings.values import (
    ACTIVE,
    NOTHING,
    REFUTED,
    Candidate,
    Certainty,
    Covered,
    Kind,
    Sides,
)
from service.levels import PlacedChange, Standing, Tail
from service.models import (
    FindingRow,
    FindingSeries,
    FindingState,
    SeriesRow,
)

log = logging.getLogger(__name__)

DAY = timedelta(days=1)


def candidates(
    session: Session, standing: Standing, tail: Tail, covered: Covered, ill: frozenset[str]
) -> list[Candidate]:
    """Changes of a series that no finding covers and that the history alone makes believable."""
    row = session.get_one(SeriesRow, standing.series_id)
    if not rules.watched(row.metric):
        return []
    return [
        _candidate(session, row, placed)
        for placed in standing.changes
        if placed.change.index not in covered.changes
        and rules.recent(standing, placed)
        and rules.stands(standing, placed)
        and not rules.beside_ill(tail, placed.change.index, ill)
    ]


def open_findings(
    session: Session,
    found: Iterable[Candidate],
    now: datetime,
    measured: Sides = NOTHING,
) -> list[str]:
    """Open a finding for each cause among the candidates that may be opened today; their ids.

    What takes an earlier change back closes that finding and opens none. ``measured`` is what was
    measured for the only candidate.
    """
    news = [each for each in found if not takes_back(session, each, now)]
    accepted = rules.accepted(news, read.doubts_since(session, now - DAY))
    opened: list[str] = []
    for group in rules.groups(accepted):
        try:
            with session.begin_nested():
                opened += _tell(session, group, measured, now)
        except (DBAPIError, DatabaseUnavailable, Conflict):
            raise  # the next look does it all again
        except Exception:
            log.exception("no finding could be made of a change at %s", group[0].placed.first_bad)
    return opened


def _tell(
    session: Session, group: Sequence[Candidate], measured: Sides, now: datetime
) -> list[str]:
    """Add the changes to the finding about their cause, or open one; its id, if so."""
    home = _home(session, group[0])
    if home is None and not any(rules.worth_telling(e.placed.change.effect) for e in group):
        return []
    if home is None:
        opened = _open(session, group, measured, now)
        return [] if opened is None else [opened]
    _join(session, home, group, now)
    return []


def _candidate(session: Session, row: SeriesRow, placed: PlacedChange) -> Candidate:
    return Candidate(
        series=read.name_of(row),
        placed=placed,
        rank=revisions.rank(session, placed.first_bad_at),
        doubt=1.0 - placed.change.confidence,
    )


def _home(session: Session, candidate: Candidate) -> FindingRow | None:
    """The finding that is about the same cause already, closed or not."""
    here = rules.footprint(candidate)
    rows = session.scalars(
        select(FindingRow)
        .where(FindingRow.kind == candidate.kind, FindingRow.state.not_in(REFUTED))
        .order_by(FindingRow.id.desc())
        .limit(200)
    )
    return next((row for row in rows if _takes_in(session, row, candidate, here)), None)


def _takes_in(
    session: Session, row: FindingRow, candidate: Candidate, here: rules.Footprint
) -> bool:
    """Whether a finding is about this cause; a closed one takes in only its very revision."""
    there = _footprint(session, row)
    again = session.get(FindingSeries, (row.id, candidate.series.id)) is not None
    open_ = row.state in ACTIVE
    late = there.rank != here.rank or row.state == FindingState.RESOLVED
    return there.one_cause(here) and not again and (open_ or not late)


def _footprint(session: Session, row: FindingRow) -> rules.Footprint:
    cases = (
        select(SeriesRow.case_key)
        .join(FindingSeries, FindingSeries.series_id == SeriesRow.id)
        .where(FindingSeries.finding_id == row.id)
    )
    workloads = frozenset(workload_of(key)[0] for key in session.scalars(cases))
    rank = revisions.rank(session, row.first_bad_at)
    return rules.Footprint(Kind(row.kind), row.comparability, rank, workloads)


def _open(
    session: Session, group: Sequence[Candidate], measured: Sides, now: datetime
) -> str | None:
    told = explain(session, group, measured)
    first = group[0]
    if first.not_reproduced:
        told = _without_cause(told)
    if told.cause is Cause.NODE and first.kind is Kind.REGRESSION:
        return None  # `nodes` names the node; a regression that is none would be in the way
    finding_id = lifecycle.open_finding(
        session,
        now,
        kind=first.kind,
        cause=told.cause,
        certainty=first.certainty,
        sentence=told.sentence,
        attribution=read.ATTRIBUTION.dump_python(told, mode="json"),
        measured=asdict(measured),
        share=None,
        last_good=first.placed.last_good,
        first_bad=first.placed.first_bad,
        first_bad_at=first.placed.first_bad_at,
        comparability=first.series.comparability,
        worker=None,
    )
    _link(session, finding_id, group, first=0)
    return finding_id


def _without_cause(told: Attribution) -> Attribution:
    """The history says so, and measuring again does not: then the revision is not to blame."""
    head = told.sentence.partition("): ")[0]
    sentence = (
        f"{head}): measured again beside each other, both revisions were at the old level, so the "
        "code does not explain it; what differs in the regular runs is not known."
    )
    return replace(told, cause=Cause.UNKNOWN, sentence=sentence)


def _join(session: Session, row: FindingRow, group: Sequence[Candidate], now: datetime) -> None:
    """Add series to a finding, and say again what it is, now that more is known."""
    known = members(session, row)
    _link(session, row.id, group, first=len(known))
    names = ", ".join(f"{each.series.case.key} {each.series.metric}" for each in group)
    lifecycle.record(session, row.id, lifecycle.OURSELVES, "join", names, now)
    if row.state in ACTIVE:
        fresh = {each.series.id for each in group}
        whole = [each for each in known if each.series.id not in fresh] + list(group)
        measured = Sides(*(tuple(row.measured.get(side, ())) for side in ("before", "after")))
        told = explain(session, whole, measured)
        attribution = read.ATTRIBUTION.dump_python(told, mode="json")
        lifecycle.reword(session, row, told.sentence, told.cause, attribution)


def members(session: Session, row: FindingRow) -> list[Candidate]:
    """The changes that a finding is about, the one that it was opened for first."""
    wanted = (
        select(FindingSeries, SeriesRow)
        .join(SeriesRow, SeriesRow.id == FindingSeries.series_id)
        .where(FindingSeries.finding_id == row.id)
        .order_by(FindingSeries.place)
    )
    return [_member(session, row, link, series) for link, series in session.execute(wanted)]


def _member(session: Session, row: FindingRow, link: FindingSeries, series: SeriesRow) -> Candidate:
    change = ChangePoint(
        index=0,
        effect=link.effect,
        effect_low=link.effect_low,
        effect_high=link.effect_high,
        before=link.before,
        after=link.after,
        improvement=row.kind == Kind.IMPROVEMENT,
        confidence=1.0 - link.doubt,
        evidence=0.0,
    )
    placed = PlacedChange(
        change=change,
        last_good=row.last_good or "",
        first_bad=row.first_bad,
        first_bad_at=link.first_bad_at,
        first_bad_result=link.first_bad_result,
    )
    rank = revisions.rank(session, link.first_bad_at)
    return Candidate(read.name_of(series), placed, rank, link.doubt, Certainty(row.certainty))


def _link(session: Session, finding_id: str, group: Sequence[Candidate], first: int) -> None:
    for place, each in enumerate(group, first):
        told = each.placed.change
        link = FindingSeries(
            finding_id=finding_id,
            series_id=each.series.id,
            first_bad_result=each.placed.first_bad_result,
            first_bad_at=each.placed.first_bad_at,
            effect=told.effect,
            effect_low=told.effect_low,
            effect_high=told.effect_high,
            before=told.before,
            after=told.after,
            doubt=each.doubt,
            ended="",
            ended_at=None,
            place=place,
        )
        session.merge(link)
    session.flush()
