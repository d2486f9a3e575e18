"""Tells when workers were slow, by findings about them: what they measured then tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.history.series_history import RecentPoint
from service.models import FindingRow
from service.schemas.findings import REFUTED, FindingKind
from service.schemas.series import SeriesPoint

SlowPeriods = Mapping[str, Sequence[tuple[datetime, datetime | None]]]
"""By worker: the place of the first revision at which it was slow, and the time from which on it no
longer was; None while it is."""


P = TypeVar("P", RecentPoint, SeriesPoint)


def slow_periods(session: Session) -> SlowPeriods:
    """Give when workers were slow by findings about them, those that are over too."""
    rows = session.execute(
        select(FindingRow.worker, FindingRow.first_bad_at, FindingRow.closed_at)
        .where(FindingRow.kind == FindingKind.BAD_NODE, FindingRow.state.not_in(REFUTED))
        .order_by(FindingRow.id)
    )
    periods: dict[str, list[tuple[datetime, datetime | None]]] = {}
    for worker, since, until in rows:
        periods.setdefault(worker or "", []).append((since, until))
    return periods


def by_ill(point: RecentPoint | SeriesPoint, ill: SlowPeriods) -> bool:
    """Return True if a worker measured a point when it was slow."""
    return any(
        since <= point.revision_at and (until is None or point.measured_at < until)
        for since, until in ill.get(point.worker, ())
    )


def of_well_workers(points: Iterable[P], ill: SlowPeriods) -> list[P]:
    """Give the points that no worker measured while it was slow."""
    return [point for point in points if not by_ill(point, ill)]
