"""Applies a new analysis of a series to the findings that are about it already."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from statistics import median

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.analysis.detection.alarms import PATIENCE
from service.analysis.detection.windows import SAME
from service.analysis.recovery import share_left, taken_back
from service.database.failures import passes
from service.database.session import pairs
from service.findings import gather_evidence, lifecycle, rules
from service.findings.queries import last_point
from service.history.analysis import Histories
from service.history.series_history import EDGE, PlacedChange, RecentPoints, SeriesHistory
from service.history.slow_workers import SlowPeriods, by_ill
from service.models import FindingEvent, FindingRow, FindingSeries, FindingState
from service.schemas.findings import REFUTED, Certainty, FindingKind

log = logging.getLogger(__name__)


Link = tuple[FindingSeries, FindingRow]
"""A finding about a series, and what it says of it."""


def links_of(session: Session, series_id: str) -> Sequence[Link]:
    """Each finding about a series, and what it says of it."""
    return links_by_series(session, [series_id])[series_id]


def links_by_series(session: Session, series: Sequence[str]) -> Mapping[str, Sequence[Link]]:
    """Give the findings about some series, by the id of the series."""
    query = (
        select(FindingSeries, FindingRow)
        .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
        .where(FindingSeries.series_id.in_(series))
        .order_by(FindingSeries.first_bad_at, FindingRow.id)
    )
    found: dict[str, list[Link]] = {series_id: [] for series_id in series}
    for link, row in session.execute(query):
        found[link.series_id].append((link, row))
    return found


def follow(
    histories: Histories,
    series_id: str,
    links: Sequence[Link],
    ill: SlowPeriods,
    now: datetime,
) -> rules.AlreadyReported:
    """Bring the findings of a series, ``links``, up to date; say what they cover of its changes.

    What workers measured while they were slow, which ``ill`` says, ends nothing.
    """
    history = histories.of(series_id)
    analysis, tail = history.analysis, history.recent
    changes = {change.id: change for change in analysis.changes}
    covered: set[str] = set()
    expected: set[str] = set()
    shifts: list[rules.PendingShift] = []
    begins: list[rules.ReportedPlace] = []
    ends = [(link.first_bad_at, link.ended_at) for link, _ in links if link.ended == "recovered"]
    for link, row in links:
        index = tail.place_of(link.first_bad_result, link.first_bad_at)
        if index is None:
            continue
        begin = tail.number_of(link.first_bad_result)  # None where it was excluded since
        if begin is not None and row.state not in REFUTED and link.ended != "gone":
            until = begin
            if row.drifts:
                until = last_point(histories.session, history, link.first_bad_at)
            begins.append(rules.ReportedPlace(begin, link.effect, until))
        change = changes.get(link.change_id)
        back = rules.recovery(history, change, ill) if change else None
        if back and not link.ended and _ended_another(back, link, ends, tail):
            back = None
        level = rules.led(analysis, change, back) if change and back else 0.0
        over = back and (_only_back(link, row, history, back) or is_no_news(link, row, level))
        reported = (change, back if over else _known_end(link, row, history))
        covered |= {one.id for one in reported if one is not None}
        expected |= {change.id} if change and is_expected(row) else set()
        ended = link.ended
        watched = not (back or ended or is_expected(row)) and _fades(link, row, change)
        since = _back_again(link, history, index, ill) if watched else None
        if since is not None:
            recover(link, since)
        else:
            _update(histories, link, row, change, back, now)
        histories.session.flush()
        shifts += _shifts(link, row, tail, change, back)
        if link.ended != ended:  # once: what a person has opened again stays so
            settle(histories.session, row, _since(link, tail), now)
    findings = frozenset(row.id for _, row in links)
    return rules.AlreadyReported(
        changes=frozenset(covered),
        shifts=tuple(shifts),
        begins=tuple(begins),
        expected=frozenset(expected),
        findings=findings,
    )


def _ended_another(
    back: PlacedChange,
    link: FindingSeries,
    ends: Iterable[tuple[datetime, datetime | None]],
    tail: RecentPoints,
) -> bool:
    """Return True if a recovery is known to have ended an earlier change and left this one.

    That was decided for all series of a cause together, which know better than one. ``ends`` say
    where changes of the series begin and end.
    """
    places = (tail.index_of(at) for begun, at in ends if at and begun < link.first_bad_at)
    return any(place is not None and abs(place - back.change.index) <= EDGE for place in places)


def _known_end(link: FindingSeries, row: FindingRow, history: SeriesHistory) -> PlacedChange | None:
    """The change at which a finding is known to have ended in a series, if it is no news.

    A later drop that the history does not show yet may hide that it led back to the old level.
    """
    at = None if link.ended_at is None else history.recent.index_of(link.ended_at)
    if link.ended != "recovered" or at is None or is_expected(row):
        return None
    return next(
        (
            change
            for change in history.analysis.changes
            if abs(change.change.index - at) <= EDGE
            and (change.change.effect > 0) != (link.effect > 0)
            and is_no_news(link, row, change.change.after)
        ),
        None,
    )


def is_no_news(link: FindingSeries, row: FindingRow, level: float) -> bool:
    """Return True if what ends a finding in a series, at ``level``, is no news itself."""
    if is_expected(row):
        return False
    lost = row.kind == FindingKind.IMPROVEMENT and row.state not in REFUTED
    return not lost and not rules.surpassed(link.before, link.after, level)


def _only_back(
    link: FindingSeries, row: FindingRow, history: SeriesHistory, back: PlacedChange
) -> bool:
    """Return True if a regression's known recovery led to the old level and no further.

    The first points of the recovery decide: the present level is also moved by what later points
    make a drift look like.
    """
    if link.ended != "recovered" or link.ended_at is None or is_expected(row):
        return False
    since = history.recent.index_of(link.ended_at)
    if row.kind != FindingKind.REGRESSION or since is None or abs(back.change.index - since) > SAME:
        return False
    at = back.change.index - history.recent.first
    values = history.values[at : at + SAME]
    return bool(values) and not rules.surpassed(link.before, link.after, median(values))


def is_expected(row: FindingRow) -> bool:
    """Return True if a person declared the new level the baseline."""
    return row.state == FindingState.EXPECTED


def _shifts(
    link: FindingSeries,
    row: FindingRow,
    tail: RecentPoints,
    change: PlacedChange | None,
    back: PlacedChange | None,
) -> Iterator[rules.PendingShift]:
    """Yield the shifts of a series that are known before its analysis shows them.

    What was excluded is not known to be there.
    """
    begin = tail.number_of(link.first_bad_result)
    if row.state in REFUTED or link.ended == "gone" or begin is None:
        return
    if min(link.before, link.after) <= 0:
        return  # such a series has no ratios that could be undone
    if change is None:
        yield rules.PendingShift(begin, link.before, link.after)
    since = None if link.ended_at is None else tail.index_of(link.ended_at)
    if link.ended == "recovered" and back is None and since is not None:
        yield rules.PendingShift(since, link.after, link.before)


def recover(link: FindingSeries, at: datetime) -> None:
    """Note that a finding ended in a series."""
    link.ended, link.ended_at = "recovered", at


def _since(link: FindingSeries, tail: RecentPoints) -> str:
    index = None if link.ended_at is None else tail.index_of(link.ended_at)
    if index is None or index - tail.first >= len(tail.points):
        return ""
    return tail.points[index - tail.first].revision


def _update(
    histories: Histories,
    link: FindingSeries,
    row: FindingRow,
    change: PlacedChange | None,
    back: PlacedChange | None,
    now: datetime,
) -> None:
    """Note what the newest analysis says of one series of a finding."""
    if change is None:
        if row.certainty == Certainty.STANDING and row.state in rules.ACTIVE and not link.ended:
            link.ended = "gone"
        return
    if link.ended == "gone":
        _comes_back(histories.session, link, row, change, now)
    if row.state not in rules.ACTIVE:
        return
    # Side by side was better measured than this; a drift is measured from where it begins.
    if row.certainty == Certainty.STANDING and not row.drifts:
        for name, value in gather_evidence.figures_of(change.change).items():
            setattr(link, name, value)
        if _elsewhere(link, row, change):
            _moves(histories, link, row, change, now)
    if back is not None:
        recover(link, back.first_bad_at)


def _fades(link: FindingSeries, row: FindingRow, change: PlacedChange | None) -> bool:
    """Return True if the history shows a change no more, or less than half of a confirmed one.

    It keeps a confirmed change for ever. If that is over within days, its border is the only one
    for some weeks, between the old level and a mean of both.
    """
    if change is None:
        return True
    left = share_left(link.before, link.after, change.change.after)
    return row.certainty == Certainty.CONFIRMED and left < 0.5


def _back_again(
    link: FindingSeries, history: SeriesHistory, index: int, ill: SlowPeriods
) -> datetime | None:
    """Give the place from which on all points of well workers are back at the old level."""
    at = max(0, index - history.recent.first)
    points = zip(history.recent.points[at:], history.values[at:], strict=True)
    since = [(point, value) for point, value in points if not by_ill(point, ill)]
    over = [
        point
        for point, _ in takewhile(
            lambda one: taken_back(link.before, link.after, one[1]), reversed(since)
        )
    ]
    return over[-1].revision_at if PATIENCE <= len(over) < len(since) else None


def _comes_back(
    session: Session, link: FindingSeries, row: FindingRow, change: PlacedChange, now: datetime
) -> None:
    """Reopen what we withdrew ourselves; what a person closed stays closed."""
    if 1.0 - change.change.confidence > rules.FALSE_SHARE:
        return
    link.ended = ""
    last = select(FindingEvent.actor).where(
        FindingEvent.finding_id == row.id, FindingEvent.action == "withdraw"
    )
    actor = session.scalars(last.order_by(FindingEvent.id.desc())).first()
    if row.state == FindingState.WITHDRAWN and actor == lifecycle.SYSTEM_ACTOR:
        said = "newer points show the change again"
        lifecycle.act(session, row.id, "reopen", lifecycle.SYSTEM_ACTOR, now, detail=said)


def _elsewhere(link: FindingSeries, row: FindingRow, change: PlacedChange) -> bool:
    if change.first_bad_result != link.first_bad_result:
        return True
    return link.place == 0 and change.last_good != row.last_good


def _moves(
    histories: Histories, link: FindingSeries, row: FindingRow, change: PlacedChange, now: datetime
) -> None:
    """Move a change to where it lies by now, and say what it is put down to there."""
    session = histories.session
    link.first_bad_result, link.first_bad_at = change.first_bad_result, change.first_bad_at
    session.flush()
    if link.place:
        return  # the range and the reasons are those of the change that it was opened for
    lifecycle.move(session, row, change, now)
    try:
        with session.begin_nested():
            gather_evidence.say_again(histories, row, gather_evidence.members(session, row))
    except Exception as error:
        if passes(error):
            raise
        log.exception("what finding %s is cannot be said again", row.id)


def settle(session: Session, row: FindingRow, since: str, now: datetime) -> None:
    """Close a finding when the change has ended in all its series."""
    if row.state not in rules.ACTIVE:
        return
    counts = select(FindingSeries.ended, func.count()).where(FindingSeries.finding_id == row.id)
    ended = pairs(session, counts.group_by(FindingSeries.ended))
    if ended.get(""):
        return
    if ended.get("recovered"):
        where = f"back at its level since {since}" if since else "back at its level"
        lifecycle.act(session, row.id, "resolve", lifecycle.SYSTEM_ACTOR, now, detail=where)
    else:
        said = "newer or corrected points show no change"
        lifecycle.act(session, row.id, "withdraw", lifecycle.SYSTEM_ACTOR, now, detail=said)
