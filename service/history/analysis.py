"""Analyses a series again from where it changed, and reads what is said of it.

A new point at the end costs one window however long the past is; a late one costs the windows from
its place on. Either way the outcome is that of analysing the whole history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar, cast

from sqlalchemy import Table, bindparam, delete, select, tuple_
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service.analysis.detection import windows as detection_windows
from service.analysis.detection.change import ChangePoint
from service.analysis.detection.history import Refused
from service.analysis.detection.support import Supports
from service.analysis.detection.windows import Detection, end_needed, first_needed
from service.analysis.statement import Statement
from service.database.session import insert_if_absent
from service.history import changes
from service.history.queries import WORKER, name_of
from service.history.run_noise import spread_document
from service.history.series_history import (
    RecentPoint,
    RecentPoints,
    SeriesAnalysis,
    SeriesHistory,
    noise_document,
    noise_of,
    without_worker_offset,
)
from service.models import AnalysisRow, ChangeRow, Point, SeriesRow, SettledWindow

_ANALYSES = cast(Table, AnalysisRow.__table__)
_ORDER = (Point.revision_at, Point.revision, Point.measured_at, Point.result_id)


@dataclass(frozen=True, slots=True)
class AnalysisInput:
    """The points of a series that are to be analysed, and the analysis that stands meanwhile."""

    since: datetime
    tail: RecentPoints
    settled: tuple[tuple[ChangePoint, ...], ...]
    """Changes of the windows that stay as they are."""
    unsettles: bool
    """True if settled windows have to be removed."""
    known: tuple[ChangePoint, ...] | None
    """Changes of the window after those, if it is known already."""
    supports: Supports
    """Changes that were confirmed beside each other, where the tail has their first points."""
    stood: tuple[int, datetime | None]
    """Number of points in the last analysis, and its time; None before the first."""


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """The rows of a series, without its points."""

    series: SeriesRow
    analysis: AnalysisRow | None
    settled: Sequence[SettledWindow]
    shown: Sequence[ChangeRow]
    """Changes that its analysis shows."""
    is_confirmed: bool
    """True if measuring again has confirmed a change of it."""


def load_rows(session: Session, series: Sequence[str]) -> dict[str, StoredSeries]:
    """Load the rows of some series by id: a statement for each kind, however many series."""
    analyses = select(AnalysisRow).where(AnalysisRow.series_id.in_(series))
    windows = select(SettledWindow).where(SettledWindow.series_id.in_(series))
    shown = select(ChangeRow).where(ChangeRow.series_id.in_(series), ChangeRow.present)
    rows = session.scalars(select(SeriesRow).where(SeriesRow.id.in_(series))).all()
    analysis = {row.series_id: row for row in session.scalars(analyses)}
    settled = _by_series(session.scalars(windows.order_by(SettledWindow.number)))
    present = _by_series(session.scalars(shown))
    confirmed = changes.with_confirmed(session, series)
    return {
        row.id: StoredSeries(
            row, analysis.get(row.id), settled[row.id], present[row.id], row.id in confirmed
        )
        for row in rows
    }


Owned = TypeVar("Owned", SettledWindow, ChangeRow)


def _by_series(rows: Iterable[Owned]) -> Mapping[str, Sequence[Owned]]:
    found: dict[str, list[Owned]] = defaultdict(list)
    for row in rows:
        found[row.series_id].append(row)
    return found


def read(
    session: Session, series_id: str, since: datetime, stored: StoredSeries | None = None
) -> AnalysisInput:
    """Read what analysing a series needs whose points changed from ``since`` on."""
    stored = stored or load_rows(session, [series_id])[series_id]
    settled = [window for window in stored.settled if window.ends_at < since]
    tail, row = _load(session, stored.series, settled), stored.analysis
    known = None if row is None else _complete(row, settled, tail, since)
    points = tuple(tuple(ChangePoint(**point) for point in window.changes) for window in settled)
    return AnalysisInput(
        since=since,
        tail=tail,
        settled=points,
        unsettles=len(settled) < len(stored.settled),
        known=known,
        supports=changes.confirmed(session, tail) if stored.is_confirmed else {},
        stood=_stood(row),
    )


def analyse(of: AnalysisInput) -> Detection:
    """Analyse what was read."""
    try:
        history = of.tail.history
    except Refused as refused:
        settled = detection_windows.joined(list(of.settled))
        warning = Statement.of("refused", reason=str(refused))
        return Detection(settled, None, (warning,), of.settled)
    return detection_windows.resume(
        of.settled, history, of.tail.first, known=of.known, supports=of.supports
    )


Locked = tuple[AnalysisRow, bool, Sequence[changes.StoredChange]]
"""The analysis of a series, which nobody else may write meanwhile; whether it was made just now;
and the stored changes of the series."""


def lock(session: Session, series: Sequence[str], now: datetime) -> dict[str, Locked]:
    """Lock the analyses of some series, in the order of their ids, and load their changes."""
    of_series = AnalysisRow.series_id.in_(series)
    known = set(session.scalars(select(AnalysisRow.series_id).where(of_series)))
    new = {one for one in sorted(set(series) - known) if _make(session, one, now)}
    rows = (
        select(AnalysisRow)
        .where(of_series)
        .order_by(AnalysisRow.series_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    locked = list(session.scalars(rows))
    stored = changes.load_stored(session, series)
    return {row.series_id: (row, row.series_id in new, stored[row.series_id]) for row in locked}


def store(
    session: Session,
    of: AnalysisInput,
    detection: Detection,
    now: datetime,
    locked: Locked | None = None,
) -> None:
    """Store what is said of a series, which ``detection`` says of what was read.

    Two services that analysed one series at the same time store one after the other; the second one
    analyses again, because it may have read fewer points. What came in after a series was read
    waits to be analysed anyway.
    """
    series_id = of.tail.series_id
    row, is_new, stored = locked or lock(session, [series_id], now)[series_id]
    if _stood(None if is_new else row) != of.stood:
        of = read(session, series_id, of.since)
        detection = analyse(of)
    tail = of.tail
    if of.unsettles:
        _unsettle(session, series_id, of.since)
    _settle(session, tail, len(of.settled), detection)
    row.points = tail.first + len(tail.points)
    row.newest = [asdict(change) for change in detection.newest]
    row.noise = noise_document(detection.noise)
    row.spread = spread_document(tail, detection.change_points)
    row.warnings = [warning.stored() for warning in detection.warnings]
    row.analysed_at = now
    settled = (change for window in of.settled for change in window)
    changes.store(session, tail, detection, settled, stored, now)


def reset(session: Session, series_id: str) -> None:
    """Say that a series could not be analysed; its next point has it analysed from the start."""
    session.execute(delete(SettledWindow).where(SettledWindow.series_id == series_id))
    row = session.get(AnalysisRow, series_id)
    if row is not None:
        row.points, row.newest, row.noise, row.spread = 0, [], None, None
        changes.forget(session, series_id)
        row.warnings = [Statement.of("analysis_failed").stored()]


def load_analysis(session: Session, series_id: str) -> SeriesAnalysis:
    """Load the analysis of a series; one that was not analysed yet has an empty analysis."""
    return _analysis_of(load_rows(session, [series_id])[series_id])


def _analysis_of(stored: StoredSeries) -> SeriesAnalysis:
    row = stored.analysis
    if row is None:
        return SeriesAnalysis(stored.series.id, 0, (), None, (), None)
    return SeriesAnalysis(
        series_id=row.series_id,
        points=row.points,
        changes=changes.in_order(stored.shown),
        noise=noise_of(row.noise),
        warnings=tuple(map(Statement.read, row.warnings)),
        analysed_at=row.analysed_at,
    )


class Histories:
    """Reads the history of each series once, for one transaction."""

    def __init__(
        self,
        session: Session,
        read: Iterable[SeriesHistory] = (),
        stored: Mapping[str, StoredSeries] = MappingProxyType({}),
    ) -> None:
        self.session = session
        self._read = {history.series.id: history for history in read}
        self._stored = stored

    def of(self, series_id: str) -> SeriesHistory:
        """Give the history of a series."""
        if series_id not in self._read:
            stored = self._stored.get(series_id)
            self._read[series_id] = load_history(self.session, series_id, stored)
        return self._read[series_id]


def load_history(
    session: Session, series_id: str, stored: StoredSeries | None = None
) -> SeriesHistory:
    """Read the analysis of a series and its newest points."""
    stored = stored or load_rows(session, [series_id])[series_id]
    analysis, recent = _analysis_of(stored), _load(session, stored.series, stored.settled)
    values = without_worker_offset(recent, analysis.machine_offsets)
    return SeriesHistory(name_of(stored.series), analysis, recent, values)


def _stood(row: AnalysisRow | None) -> tuple[int, datetime | None]:
    return (0, None) if row is None else (row.points, row.analysed_at)


def _make(session: Session, series_id: str, now: datetime) -> bool:
    """Make the analysis of a series; False if somebody else has made it meanwhile."""
    row = {
        "series_id": series_id,
        "points": 0,
        "newest": [],
        "noise": None,
        "spread": None,
        "warnings": [],
        "analysed_at": now,
    }
    return insert_if_absent(session, _ANALYSES, row)


def _unsettle(session: Session, series_id: str, since: datetime) -> None:
    touched = SettledWindow.series_id == series_id, SettledWindow.ends_at >= since
    session.execute(delete(SettledWindow).where(*touched))


_OF_SERIES = Point.series_id == bindparam("series_id")
_COUNTED = (
    select(
        Point.result_id,
        Point.revision,
        Point.revision_at,
        Point.value,
        WORKER,
        Point.measured_at,
        Point.low,
        Point.high,
        Point.interval,
        Point.replicates,
        Point.within,
    )
    .where(_OF_SERIES, Point.excluded.is_(False), Point.disturbed == "")
    .order_by(*_ORDER)
)
_FIRST = select(*_ORDER).where(_OF_SERIES, Point.result_id == bindparam("first"))
_NEWEST = _COUNTED.where(tuple_(*_ORDER) >= _FIRST.scalar_subquery())
"""Built once: to build it for each series takes as long as to run it."""


def _load(session: Session, series: SeriesRow, settled: Sequence[SettledWindow]) -> RecentPoints:
    of_series = {"series_id": series.id}
    if settled:
        rows = session.execute(_NEWEST, of_series | {"first": settled[-1].next_from})
    else:
        rows = session.execute(_COUNTED, of_series)
    points = tuple(RecentPoint(*row) for row in rows)
    return RecentPoints(series.id, Direction(series.direction), first_needed(len(settled)), points)


def _complete(
    row: AnalysisRow, settled: Sequence[SettledWindow], tail: RecentPoints, since: datetime
) -> tuple[ChangePoint, ...] | None:
    """The changes of the window that settles next, if it had all its points and has them still."""
    last = end_needed(len(settled)) - 1 - tail.first
    as_it_was = last < len(tail.points) and tail.points[last].revision_at < since
    if row.points != end_needed(len(settled)) or not as_it_was:
        return None
    return tuple(ChangePoint(**point) for point in row.newest)


def _settle(session: Session, tail: RecentPoints, before: int, detection: Detection) -> None:
    """Store the windows that have become complete."""
    for number in range(before, len(detection.settled)):
        row = SettledWindow(
            series_id=tail.series_id,
            number=number,
            ends_at=tail.points[end_needed(number) - 1 - tail.first].revision_at,
            next_from=tail.points[first_needed(number + 1) - tail.first].result_id,
            changes=[asdict(change) for change in detection.settled[number]],
        )
        session.add(row)
