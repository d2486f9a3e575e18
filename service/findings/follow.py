"""What a new judgement of a series means for the findings that are about it already."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import median

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.detection.online import PATIENCE
from service.findings import lifecycle, rules
from service.findings.values import ACTIVE, Certainty
from service.levels import PlacedChange, Standing, Tail
from service.models import FindingEvent, FindingRow, FindingSeries, FindingState


def follow(session: Session, standing: Standing, tail: Tail, now: datetime) -> frozenset[int]:
    """Bring the findings of a series up to date; the indexes of the changes they cover."""
    covered: set[int] = set()
    for link, row in _links(session, standing.series_id):
        index = tail.index_of(link.first_bad_at)
        if index is None:  # settled long ago: nothing near the end moves it
            continue
        change = rules.same_change(standing.changes, index, link.effect)
        back = rules.recovery(standing, change) if change else None
        if change is not None:
            covered.add(change.change.index)
        if back is not None:
            covered.add(back.change.index)
        _update(session, link, row, change, back, now)
        if change is None and _back_again(link, tail, index):
            link.ended = "recovered"
        session.flush()
        _settle(session, row, back, now)
    return frozenset(covered)


def _links(session: Session, series_id: str) -> Sequence[tuple[FindingSeries, FindingRow]]:
    wanted = (
        select(FindingSeries, FindingRow)
        .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
        .where(FindingSeries.series_id == series_id)
        .order_by(FindingSeries.first_bad_at, FindingRow.id)
    )
    return [(link, row) for link, row in session.execute(wanted)]


def _update(
    session: Session,
    link: FindingSeries,
    row: FindingRow,
    change: PlacedChange | None,
    back: PlacedChange | None,
    now: datetime,
) -> None:
    """Note what the newest judgement says of one series of a finding."""
    if change is None:
        if row.certainty == Certainty.STANDING and row.state in ACTIVE:
            link.ended = "gone"
        return
    if link.ended == "gone":
        _comes_back(session, link, row, change, now)
    if row.state in ACTIVE:
        told = change.change
        link.effect, link.effect_low, link.effect_high = (
            told.effect,
            told.effect_low,
            told.effect_high,
        )
        link.before, link.after = told.before, told.after
        link.ended = "recovered" if back is not None else ""


def _back_again(link: FindingSeries, tail: Tail, index: int) -> bool:
    """Whether a change that was too short to become a level of its own has been taken back."""
    since = [point.value for point in tail.points[max(0, index - tail.first) :]]
    newest = since[-PATIENCE:]
    return (
        len(since) > PATIENCE
        and not link.ended
        and rules.taken_back(link.before, link.after, median(newest))
    )


def _comes_back(
    session: Session, link: FindingSeries, row: FindingRow, change: PlacedChange, now: datetime
) -> None:
    """Reopen what we withdrew ourselves; what a person closed stays closed."""
    if 1.0 - change.change.confidence > rules.FALSE_SHARE:
        return
    link.ended = ""
    last = select(FindingEvent.actor).where(FindingEvent.finding_id == row.id)
    actor = session.scalars(last.order_by(FindingEvent.id.desc())).first()
    if row.state == FindingState.WITHDRAWN and actor == lifecycle.OURSELVES:
        said = "newer points show the change again"
        lifecycle.act(session, row.id, "reopen", lifecycle.OURSELVES, now, detail=said)


def _settle(session: Session, row: FindingRow, back: PlacedChange | None, now: datetime) -> None:
    """Close a finding when the change has ended in all its series."""
    if row.state not in ACTIVE:
        return
    counts = select(FindingSeries.ended, func.count()).where(FindingSeries.finding_id == row.id)
    rows = session.execute(counts.group_by(FindingSeries.ended))
    ended = {how: count for how, count in rows}  # noqa: C416 - rows are no pairs to mypy
    if ended.get(""):
        return
    if ended.get("recovered"):
        where = f"back at its level since {back.first_bad}" if back else "back at its level"
        lifecycle.act(session, row.id, "resolve", lifecycle.OURSELVES, now, detail=where)
    else:
        said = "newer or corrected points show no change"
        lifecycle.act(session, row.id, "withdraw", lifecycle.OURSELVES, now, detail=said)
