"""Changes that no finding reports yet become findings: one per cause, announced once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, aliased

from benchmarks.catalog.metrics import reading_order
from service.analysis.attribution import attribute
from service.analysis.detection.windows import SAME
from service.database.failures import passes
from service.findings import causes, drifts, gather_evidence, lifecycle, queries, rules
from service.findings.reverts import take_back
from service.findings.rules import ACTIVE, NOTHING, Candidate, Remeasured
from service.findings.suspicion import LEVEL_POINTS
from service.findings.update import settle
from service.findings.witnesses import LATE, is_explained
from service.history.analysis import Histories
from service.history.changes import alike
from service.history.series_history import PlacedChange
from service.models import FindingRow, FindingSeries, FindingState, Point, Revision
from service.schemas.findings import REFUTED, Cause, FindingKind

log = logging.getLogger(__name__)

DAY = timedelta(days=1)


def open_findings(
    histories: Histories,
    changes: Sequence[Candidate],
    now: datetime,
    measured: Remeasured = NOTHING,
) -> list[str]:
    """Open a finding for each cause among the candidates that may be opened today; their ids.

    What takes an earlier change back closes that finding and opens none. ``measured`` is what was
    measured for the only candidate.
    """
    session = histories.session
    fresh = unreported(session, changes)
    news = [change for group in causes.groups(fresh) for change in take_back(session, group, now)]
    accepted = rules.accepted(news, queries.doubts_since(session, now - DAY))
    opened: list[str] = []
    for group in sorted(causes.groups(accepted), key=lambda group: causes.headline_order(group[0])):
        try:
            with session.begin_nested():
                opened += _open_or_join(histories, group, measured, now)
        except Exception as error:
            if passes(error):  # the next look does it all again
                raise
            log.exception("no finding could be made of a change at %s", group[0].placed.first_bad)
    return opened


def unreported(session: Session, changes: Sequence[Candidate]) -> list[Candidate]:
    """Return the changes that no finding is about yet, wherever it places them."""
    ids = FindingSeries.change_id.in_([change.placed.id for change in changes])
    known = set(session.scalars(select(FindingSeries.change_id).where(ids)))
    return [change for change in changes if change.placed.id not in known]


def _open_or_join(
    histories: Histories, group: Sequence[Candidate], measured: Remeasured, now: datetime
) -> list[str]:
    """Add the changes to the finding about their cause, or open one; its id, if so."""
    session = histories.session
    # A change that the last good revision shows too began earlier, by an unknown time.
    late = LEVEL_POINTS if any(change.not_by_code for change in group) else LATE
    group = [one for one in group if not is_explained(session, one.series, one.rank, late)]
    if group and (drift := drifts.continued(histories, group)) is not None:
        go_on(histories, drift, now)
        group = [candidate for candidate in group if candidate not in drift.changes]
    if not group:
        return []
    home = _home(histories, group[0])
    if home is not None:
        joining = [candidate for candidate in group if _joins(histories, home, candidate)]
        join(histories, home, joining, now)
        group = [candidate for candidate in group if candidate not in joining]
    if not any(rules.worth_telling(one.placed.change.effect, one.least) for one in group):
        return []
    opened = _open(histories, group, measured, now)
    return [] if opened is None else [opened]


def _home(histories: Histories, candidate: Candidate) -> FindingRow | None:
    """The finding that is about the same cause already, closed or not."""
    last_good = aliased(Revision)
    rows = histories.session.scalars(
        select(FindingRow)
        .join(last_good, last_good.name == FindingRow.last_good)
        .where(FindingRow.project == candidate.series.project)
        .where(FindingRow.kind.in_(rules.OF_CHANGES), FindingRow.state.not_in(REFUTED))
        .where(FindingRow.first_bad_at >= candidate.earliest)
        .where(
            or_(
                last_good.ordered_at < candidate.latest, FindingRow.first_bad_at <= candidate.latest
            )
        )
        .order_by(FindingRow.id.desc())
        .limit(200)
    )
    return next((row for row in rows if _takes_in(histories, row, candidate)), None)


def _takes_in(histories: Histories, row: FindingRow, candidate: Candidate) -> bool:
    """Return True if a finding at the place of a change is about its cause."""
    session = histories.session
    about = gather_evidence.members(session, row)
    if any(candidate.series.id == member.series.id for member in about):
        return False
    if candidate.not_by_code and row.cause == Cause.CODE and not _just_after(candidate, about):
        return False
    if not causes.same_cause(candidate, about):
        return False
    within = _within_one_revision(row, candidate.placed)
    if row.state in ACTIVE:
        return not within or _beside(histories, row, candidate)
    surely = row.first_bad_at == candidate.placed.first_bad_at and not within
    return surely and row.state != FindingState.RESOLVED and _of_its_size(session, row, candidate)


def _just_after(candidate: Candidate, about: Sequence[Candidate]) -> bool:
    """Return True if a change has the size of one that began before it.

    Where both of its revisions are at the new level, the history shows that one too late.
    """
    point = candidate.placed.change
    return any(
        one.placed.first_bad_at < candidate.placed.first_bad_at
        and one.placed.change.effect_low <= point.effect_high
        and point.effect_low <= one.placed.change.effect_high
        for one in about
    )


def _within_one_revision(row: FindingRow, placed: PlacedChange) -> bool:
    begins = row.last_good == row.first_bad or placed.last_good == placed.first_bad
    return begins and row.first_bad == placed.first_bad


def _joins(histories: Histories, row: FindingRow, candidate: Candidate) -> bool:
    if row.state in ACTIVE:
        return histories.session.get(FindingSeries, (row.id, candidate.series.id)) is None
    return _takes_in(histories, row, candidate)


def _of_its_size(session: Session, row: FindingRow, candidate: Candidate) -> bool:
    effects = select(FindingSeries.effect).where(FindingSeries.finding_id == row.id)
    effect = candidate.placed.change.effect
    return any(alike(effect, seen) for seen in session.scalars(effects))


def _beside(histories: Histories, row: FindingRow, candidate: Candidate) -> bool:
    """Return True if a change also lies near that of a finding in the order of points.

    A revision that is measured for ever holds changes of many causes. One that is measured several
    times, on as many nodes, hides where within it a change lies.
    """
    query = (
        select(Point)
        .join(FindingSeries, FindingSeries.first_bad_result == Point.result_id)
        .where(FindingSeries.finding_id == row.id, FindingSeries.series_id == Point.series_id)
        .order_by(FindingSeries.place)
    )
    first = histories.session.scalars(query.limit(1)).one()
    tail = histories.of(candidate.series.id).recent
    there = tail.index_at((first.revision_at, first.revision, first.measured_at))
    here = tail.place_of(candidate.placed.first_bad_result, candidate.placed.first_bad_at)
    return here is not None and there is not None and abs(here - there) <= SAME


def _open(
    histories: Histories, group: Sequence[Candidate], measured: Remeasured, now: datetime
) -> str | None:
    session = histories.session
    attribution = attribute(gather_evidence.question_of(histories, group, measured))
    first, known = group[0], asdict(measured)
    if first.not_reproduced:
        attribution = gather_evidence.without_cause(attribution)
        known["not_reproduced"] = [first.placed.first_bad_result]
    if attribution.cause is Cause.NODE and first.kind is FindingKind.REGRESSION:
        return None  # `nodes` names the node; a regression that is none would be in the way
    finding_id = lifecycle.open_finding(
        session,
        now,
        attribution.says,
        kind=first.kind,
        **lifecycle.attributed(attribution),
        certainty=first.certainty,
        measured=known,
        share=None,
        last_good=first.placed.last_good,
        first_bad=first.placed.first_bad,
        first_bad_at=first.placed.first_bad_at,
        comparability=first.series.comparability,
        worker=None,
        project=first.series.project,
    )
    _link(session, finding_id, group, first=0)
    _end(session, session.get_one(FindingRow, finding_id), group, now)
    return finding_id


def join(histories: Histories, row: FindingRow, group: Sequence[Candidate], now: datetime) -> None:
    """Add series to a finding, and say again what it is, now that more is known."""
    session = histories.session
    known = gather_evidence.members(session, row)
    fresh = {candidate.series.id for candidate in group}
    whole = [candidate for candidate in known if candidate.series.id not in fresh] + list(group)
    _link(session, row.id, group, first=_next_place(session, row.id))
    names = ", ".join(f"{one.series.case.key} {one.series.metric}" for one in group)
    lifecycle.record(session, row.id, "join", now, detail=names)
    if row.state in ACTIVE:
        gather_evidence.say_again(histories, row, _renumbered(session, row, whole))
        _end(session, row, group, now)


def go_on(histories: Histories, drift: drifts.Continued, now: datetime) -> None:
    """Add to a finding the changes that go on from where it began, as a drift does."""
    about = {member.series.id for member in gather_evidence.members(histories.session, drift.row)}
    lifecycle.mark_drift(histories.session, drift.row)
    if more := [one for one in drift.changes if one.series.id not in about]:
        join(histories, drift.row, more, now)


def _renumbered(
    session: Session, row: FindingRow, whole: Sequence[Candidate]
) -> Sequence[Candidate]:
    """Put a change of the metric that people read first at the head of a finding, if one joined."""
    head = min(whole, key=lambda one: reading_order(one.series.metric))
    if reading_order(head.series.metric) == reading_order(whole[0].series.metric):
        return whole
    ordered = [head, *(one for one in whole if one is not head)]
    for place, one in enumerate(ordered):
        session.get_one(FindingSeries, (row.id, one.series.id)).place = place
    session.flush()
    return ordered


def _end(session: Session, row: FindingRow, group: Sequence[Candidate], now: datetime) -> None:
    back = next((candidate.back for candidate in group if candidate.back is not None), None)
    if back is not None:
        settle(session, row, back.first_bad, now)


def _next_place(session: Session, finding_id: str) -> int:
    last = select(func.max(FindingSeries.place)).where(FindingSeries.finding_id == finding_id)
    return session.scalars(last).one() + 1


def _link(session: Session, finding_id: str, group: Sequence[Candidate], first: int) -> None:
    for place, candidate in enumerate(group, first):
        link = FindingSeries(
            finding_id=finding_id,
            series_id=candidate.series.id,
            change_id=candidate.placed.id,
            first_bad_result=candidate.placed.first_bad_result,
            first_bad_at=candidate.placed.first_bad_at,
            **gather_evidence.figures_of(candidate.placed.change),
            ended="" if candidate.back is None else "recovered",
            ended_at=None if candidate.back is None else candidate.back.first_bad_at,
            place=place,
        )
        link.doubt = candidate.doubt
        session.merge(link)
    session.flush()
