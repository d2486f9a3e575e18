"""Findings about nodes that became slow in everything they run, so that no code is blamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service.attribution import Cause, Residual
from service.detection.robust import running_median
from service.findings import lifecycle
from service.findings.slowdown import Slowdown, slowdown, well_again
from service.findings.values import Certainty, Kind
from service.ids import new_id
from service.models import FindingRow, FindingState, Point, Revision, SeriesRow

METRIC = "throughput"
"""What nodes are held against each other by: every case has it."""
REVISIONS = 40
"""Newest revisions that are looked at."""


class _Measured(NamedTuple):
    revision: str
    worker: str
    measured_at: datetime
    value: float


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What is known of a node that became slow."""

    worker: str
    last_good: str
    first_bad: str
    share: float
    sentence: str
    certainty: Certainty = Certainty.STANDING


def watch_nodes(session: Session, now: datetime) -> list[str]:
    """Open a finding for each node that became slow, and close those of nodes that recovered."""
    opened = []
    for comparability, residuals in _residuals(session):
        for worker in sorted({each.worker for each in residuals}):
            known = _active(session, worker)
            if known is not None:
                _close_if_well(session, known, residuals, now)
            elif (found := slowdown(residuals, worker)) is not None:
                told = NodeChange(
                    found.worker, found.last_good, found.first_bad, found.share, _sentence(found)
                )
                opened += open_bad_node(session, told, comparability, now)
    return opened


def _residuals(session: Session) -> list[tuple[dict[str, str], list[Residual]]]:
    """Of the newest revisions, by kind of hardware: how far each result lies from its series."""
    newest = select(Revision.ordered_at).order_by(Revision.ordered_at.desc()).limit(REVISIONS)
    cut = min(session.scalars(newest), default=None)
    if cut is None:
        return []
    wanted = (
        select(SeriesRow, Point.revision, Point.worker, Point.measured_at, Point.value)
        .join(Point, Point.series_id == SeriesRow.id)
        .where(SeriesRow.metric == METRIC, Point.revision_at >= cut, Point.excluded.is_(False))
        .order_by(SeriesRow.id, Point.revision_at, Point.revision, Point.measured_at)
    )
    by_series: dict[str, tuple[SeriesRow, list[_Measured]]] = {}
    for row, revision, worker, measured_at, value in session.execute(wanted):
        measured = _Measured(revision, worker, measured_at, value)
        by_series.setdefault(row.id, (row, []))[1].append(measured)
    grouped: dict[tuple[tuple[str, str], ...], list[Residual]] = {}
    for row, points in by_series.values():
        key = tuple(sorted(row.comparability.items()))
        grouped.setdefault(key, []).extend(_of_series(row, points))
    return [(dict(key), residuals) for key, residuals in grouped.items()]


def _of_series(row: SeriesRow, points: Sequence[_Measured]) -> list[Residual]:
    """Relative to a running median, which follows changes of the code and ignores one node."""
    values = np.array([point.value for point in points])
    if values.min() <= 0:
        return []
    away = np.log(values) - running_median(np.log(values))
    if row.direction == Direction.HIGHER:
        away = -away
    return [
        Residual(row.id, point.revision, point.worker, point.measured_at, float(distance))
        for point, distance in zip(points, away, strict=True)
    ]


def _active(session: Session, worker: str) -> FindingRow | None:
    return session.scalars(
        select(FindingRow).where(
            FindingRow.kind == Kind.BAD_NODE,
            FindingRow.worker == worker,
            FindingRow.closed_at.is_(None),
        )
    ).first()


def _close_if_well(
    session: Session, row: FindingRow, residuals: Sequence[Residual], now: datetime
) -> None:
    assert row.worker is not None
    assert row.last_good is not None
    assert row.share is not None
    if well_again(residuals, row.worker, row.last_good, row.share):
        said = "as fast as the other nodes again"
        lifecycle.act(session, row.id, "resolve", lifecycle.OURSELVES, now, detail=said)


def _sentence(found: Slowdown) -> str:
    return (
        f"Worker {found.worker} is {found.share:.1%} slower than the others, against its own past, "
        f"in {found.results} results at {found.revisions} revisions since {found.first_bad}: "
        "look at the node, not at the code."
    )


def open_bad_node(
    session: Session, told: NodeChange, comparability: dict[str, str], now: datetime
) -> list[str]:
    """Open a finding about a node, unless one is open; its id, if so."""
    if _active(session, told.worker) is not None:
        return []
    row = FindingRow(
        id=new_id(now),
        kind=Kind.BAD_NODE,
        state=FindingState.OPEN,
        cause=Cause.NODE,
        certainty=told.certainty,
        sentence=told.sentence,
        attribution=None,
        share=told.share,
        last_good=told.last_good,
        first_bad=told.first_bad,
        first_bad_at=session.get_one(Revision, told.first_bad).ordered_at,
        comparability=comparability,
        worker=told.worker,
        owner="",
        note="",
        due_on=None,
        opened_at=now,
        announced_at=None,
        closed_at=None,
        version=1,
    )
    lifecycle.open_finding(session, row, now)
    return [row.id]
