"""Changes that nobody has been told of become findings: one per cause, announced once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.attribution import Attribution, Cause, Measurement
from service.findings import lifecycle, read, rules
from service.findings.question import explain
from service.findings.values import Candidate, Kind
from service.ids import new_id
from service.levels import PlacedChange, Standing
from service.models import FindingRow, FindingSeries, FindingState, Revision, SeriesRow

DAY = timedelta(days=1)
_REFUTED = (FindingState.WITHDRAWN, FindingState.NOT_REPRODUCED)


def candidates(session: Session, standing: Standing, covered: frozenset[int]) -> list[Candidate]:
    """Changes of a series that no finding covers and that the history alone makes believable."""
    row = session.get_one(SeriesRow, standing.series_id)
    if not rules.watched(row.metric):
        return []
    return [
        _candidate(session, row, placed)
        for placed in uncovered(standing, covered)
        if rules.stands(standing, placed)
    ]


def uncovered(standing: Standing, covered: frozenset[int]) -> list[PlacedChange]:
    """Recent changes that no finding covers, whether they have stood for long or not."""
    return [
        placed
        for placed in standing.changes
        if placed.change.index not in covered and rules.recent(standing, placed)
    ]


def open_findings(
    session: Session,
    found: Iterable[Candidate],
    now: datetime,
    before: Sequence[Measurement] = (),
    after: Sequence[Measurement] = (),
) -> list[str]:
    """Open a finding for each cause among the candidates that may be opened today; their ids.

    ``before`` and ``after`` are what was measured for this at the old level and at the new one.
    """
    accepted = rules.accepted(found, read.doubts_since(session, now - DAY))
    opened = []
    for group in rules.groups(accepted):
        home = _home(session, group[0])
        if home is None:
            told = explain(session, group, before, after)
            opened.append(_open(session, group, told, now))
        else:
            _join(session, home, group, now)
    return [finding for finding in opened if finding is not None]


def _candidate(session: Session, row: SeriesRow, placed: PlacedChange) -> Candidate:
    return Candidate(
        series=read.name_of(row),
        placed=placed,
        rank=rank_of(session, placed.first_bad_at),
        doubt=1.0 - placed.change.confidence,
    )


def rank_of(session: Session, at: datetime) -> int:
    """How many revisions come before a place in their order."""
    earlier = select(func.count()).select_from(Revision).where(Revision.ordered_at < at)
    return session.execute(earlier).scalar_one()


def _home(session: Session, candidate: Candidate) -> FindingRow | None:
    """The finding that is about the same cause already, closed or not."""
    here = rules.footprint(candidate)
    rows = session.scalars(
        select(FindingRow)
        .where(FindingRow.kind == candidate.kind, FindingRow.state.not_in(_REFUTED))
        .order_by(FindingRow.id.desc())
        .limit(200)
    )
    return next((row for row in rows if _footprint(session, row).one_cause(here)), None)


def _footprint(session: Session, row: FindingRow) -> rules.Footprint:
    cases = (
        select(SeriesRow.case_key)
        .join(FindingSeries, FindingSeries.series_id == SeriesRow.id)
        .where(FindingSeries.finding_id == row.id)
    )
    workloads = frozenset(key.partition(":")[0] for key in session.scalars(cases))
    rank = rank_of(session, row.first_bad_at)
    return rules.Footprint(Kind(row.kind), row.comparability, rank, workloads)


def _open(
    session: Session, group: Sequence[Candidate], told: Attribution, now: datetime
) -> str | None:
    if told.cause is Cause.NODE and group[0].kind is Kind.REGRESSION:
        return None  # `nodes` names the node; a regression that is none would be in the way
    row = _row(group[0], told, now)
    lifecycle.open_finding(session, row, now)
    _link(session, row, group)
    return row.id


def _row(first: Candidate, told: Attribution, now: datetime) -> FindingRow:
    return FindingRow(
        id=new_id(now),
        kind=first.kind,
        state=FindingState.OPEN,
        cause=told.cause,
        certainty=first.certainty,
        sentence=told.sentence,
        attribution=read.ATTRIBUTION.dump_python(told, mode="json"),
        last_good=first.placed.last_good,
        first_bad=first.placed.first_bad,
        first_bad_at=first.placed.first_bad_at,
        comparability=first.series.comparability,
        worker=None,
        share=None,
        owner="",
        note="",
        due_on=None,
        opened_at=now,
        announced_at=None,
        closed_at=None,
        version=1,
    )


def _join(session: Session, row: FindingRow, group: Sequence[Candidate], now: datetime) -> None:
    _link(session, row, group)
    names = ", ".join(f"{each.series.case.key} {each.series.metric}" for each in group)
    lifecycle.record(session, row.id, lifecycle.OURSELVES, "join", names, now)


def _link(session: Session, row: FindingRow, group: Sequence[Candidate]) -> None:
    for each in group:
        told = each.placed.change
        link = FindingSeries(
            finding_id=row.id,
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
        )
        session.merge(link)
    session.flush()
