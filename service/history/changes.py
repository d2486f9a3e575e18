"""Stores the changes of a series: each row is one change for as long as the history has it.

`analysis.store` calls `store` whenever a series was analysed. It is the only place where computed
changes are matched with stored ones; `adopt` does the same for a change that was measured again
before the history shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import Session

from service import models
from service.analysis.detection.change import ChangePoint, Noise
from service.analysis.detection.windows import Detection
from service.database.ids import new_id
from service.history import identity
from service.history.identity import KnownChange, identities
from service.history.series_history import (
    EDGE,
    PlacedChange,
    RecentPoints,
    estimate_of,
    place,
    without_worker_offset,
)


def present(session: Session, series_id: str) -> tuple[PlacedChange, ...]:
    """Load the changes that the analysis of a series shows, in their order."""
    rows = session.scalars(
        select(models.ChangeRow).where(
            models.ChangeRow.series_id == series_id, models.ChangeRow.present
        )
    )
    return tuple(sorted(map(PlacedChange.of, rows), key=lambda change: change.change.index))


def store(
    session: Session,
    tail: RecentPoints,
    analysis: Detection,
    settled: Iterable[ChangePoint],
    now: datetime,
) -> None:
    """Give each computed change the id of the stored change that it is, or a new one.

    The analysis of the series is locked. ``settled`` are change points of windows that were not
    analysed anew: what they say of a change stays as it is.
    """
    stored = identity.load_stored(session, tail)
    shown = {estimate_of(one.row): one.row.id for one in stored if one.row.present}
    same = frozenset(settled).intersection(analysis.change_points, shown)
    stored = [one for one in stored if one.row.id not in {shown[point] for point in same}]
    points = [point for point in analysis.change_points if point not in same]
    computed = [place(tail, point, analysis.noise) for point in points if point.index > tail.first]
    computed, known = _begun_anew(session, tail, analysis.noise, computed, stored)
    rows = {one.row.id: one.row for one in stored}
    for number, (change, old) in enumerate(zip(computed, identities(computed, known), strict=True)):
        row = models.ChangeRow(id=new_id(now, number)) if old is None else rows.pop(old.id)
        _write(session, row, tail.series_id, change)
    _take_away(session, list(rows))


def adopt(
    session: Session, tail: RecentPoints, change: PlacedChange, now: datetime
) -> PlacedChange:
    """Give a change that was measured again its id, and its place if the history shows it by now.

    Between which revisions it lies is known, so only a change right there is the same; one that a
    finding is about is another one, or nobody would have measured again.
    """
    session.get(models.AnalysisRow, tail.series_id, with_for_update=True)
    stored = [one for one in identity.load_stored(session, tail) if one.link is None]
    known = [identity.known_change(session, tail, (change,), one) for one in stored]
    near = [one for one in known if one is not None and one.apart(change) <= EDGE]
    (old,) = identities([change], near)
    row = next((one.row for one in stored if old is not None and one.row.id == old.id), None)
    if row is not None and row.present:
        return PlacedChange.of(row)
    if row is None:
        row = models.ChangeRow(id=new_id(now))
        _write(session, row, tail.series_id, change, present=False)
    return replace(change, id=row.id)


def forget(session: Session, series_id: str) -> None:
    """Say that the analysis of a series shows no change."""
    rows = select(models.ChangeRow.id).where(
        models.ChangeRow.series_id == series_id, models.ChangeRow.present
    )
    _take_away(session, session.scalars(rows).all())


def _begun_anew(
    session: Session,
    tail: RecentPoints,
    noise: Noise | None,
    computed: Sequence[PlacedChange],
    stored: Sequence[identity.StoredChange],
) -> tuple[list[PlacedChange], list[KnownChange]]:
    """Give the changes, those that begin anew at their own place, and what they may be."""
    values = without_worker_offset(tail, noise.machine_offsets if noise else {})
    changes, known = list(computed), []
    for one in stored:
        _, link, finding = one
        old = identity.known_change(session, tail, changes, one)
        if old is None:
            continue
        if old.closed and link is not None and finding is not None:
            anew = identity.begin_anew(session, tail, values, changes, (old, link, finding))
            changes = [anew.get(at, change) for at, change in enumerate(changes)]
            old = replace(old, not_at=frozenset(new.change.index for new in anew.values()))
        known.append(old)
    return changes, known


def _write(
    session: Session,
    row: models.ChangeRow,
    series_id: str,
    change: PlacedChange,
    *,
    present: bool = True,
) -> None:
    row.series_id, row.present = series_id, present
    row.last_good, row.first_bad = change.last_good, change.first_bad
    row.first_bad_at, row.first_bad_result = change.first_bad_at, change.first_bad_result
    row.estimate = asdict(change.change)
    session.add(row)
    session.flush()


def _take_away(session: Session, ids: Sequence[str]) -> None:
    """Mark changes as gone; those that nobody refers to are deleted."""
    gone = models.ChangeRow.id.in_(ids)
    named = or_(
        select(models.FindingSeries.change_id)
        .where(models.FindingSeries.change_id == models.ChangeRow.id)
        .exists(),
        select(models.ConfirmationRow.id)
        .where(models.ConfirmationRow.change_id == models.ChangeRow.id)
        .exists(),
    )
    if ids:
        session.execute(update(models.ChangeRow).where(gone).values(present=False))
        session.execute(delete(models.ChangeRow).where(gone, ~named))
