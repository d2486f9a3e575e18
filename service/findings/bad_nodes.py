"""Findings about nodes that became slow in everything they run, so that no code is blamed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, or_, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from benchmarks.diagnosis.disturbances import THROTTLED
from service.findings import bad_node_statistics, lifecycle
from service.findings.rules import NEAR
from service.history import revisions
from service.history.queries import WORKER
from service.models import FindingRow, Point, Revision, SeriesRow
from service.schemas import findings

METRIC = "throughput"
"""What nodes are held against each other by: every case has it."""
OF_THE_NODE = ("", THROTTLED)
"""Disturbances with which a result still tells of its node: a device that holds itself back is
slow; one that others used tells nothing."""
REVISIONS, MOST = 40, 20_000
"""Newest revisions of the history, and results, that are looked at."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of the nodes of one kind, and what it says of each."""

    comparability: dict[str, str]
    order: tuple[str, ...]
    """Revisions, oldest first."""
    by_worker: Mapping[str, Sequence[bad_node_statistics.Contrast]]
    slow: Mapping[str, bad_node_statistics.NodeChange]
    """By worker, of those that became slow."""
    named: Mapping[str, Sequence[bad_node_statistics.Contrast]]
    """By worker, in series of other metrics, in which findings name a node as slow."""

    def of(self, worker: str, only: frozenset[str]) -> list[bad_node_statistics.Contrast]:
        """Give a node's contrasts in the series ``only``; if that is empty, everywhere."""
        if not only:
            return list(self.by_worker.get(worker, ()))
        everything = (*self.by_worker.get(worker, ()), *self.named.get(worker, ()))
        return [contrast for contrast in everything if contrast.series in only]


def compare_nodes(session: Session) -> tuple[Compared, ...]:
    """Hold all nodes against each other; reads only, so that it keeps nobody from writing."""
    compared = []
    named = _named(session)
    for comparability, measured in _measurements(session, named):
        by_worker = bad_node_statistics.contrasts(
            [row for row in measured if row.series not in named]
        )
        slowdowns = {
            worker: bad_node_statistics.slowdown(by_worker, worker) for worker in by_worker
        }
        slow = {worker: change for worker, change in slowdowns.items() if change is not None}
        order = tuple(dict.fromkeys(measurement.revision for measurement in measured))
        also = bad_node_statistics.contrasts([row for row in measured if row.series in named])
        compared.append(Compared(comparability, order, by_worker, slow, also))
    return tuple(compared)


def watch_nodes(session: Session, compared: Sequence[Compared], now: datetime) -> list[str]:
    """Open a finding for each node that became slow, and close those of nodes that recovered."""
    opened = []
    for kind in compared:
        known = _active(session)
        for worker in sorted({*kind.by_worker, *kind.named}):
            if (row := known.get(worker)) is not None:
                if row.comparability == kind.comparability:
                    _close_if_well(session, row, kind, now)
            elif (slow := kind.slow.get(worker)) is not None:
                opened += open_bad_node(session, slow, kind.comparability, now)
    return opened


def ill_nodes(session: Session) -> frozenset[str]:
    """Workers that a finding names as slow now."""
    return frozenset(_active(session))


def against_others(
    session: Session, worker: str, comparability: dict[str, str]
) -> dict[tuple[str, str], float]:
    """Return how much slower than the others a node is, by series and revision, as a share.

    Of the newest revisions, as far as others have measured the same.
    """
    measured = next((rows for facts, rows in _measurements(session) if facts == comparability), [])
    return {
        (contrast.series, contrast.revision): math.expm1(contrast.size)
        for contrast in bad_node_statistics.contrasts(measured).get(worker, ())
    }


def _named(session: Session) -> frozenset[str]:
    names = {name for row in _active(session).values() for name in row.measured.get("series", ())}
    others = SeriesRow.id.in_(names), SeriesRow.metric != METRIC
    return frozenset(session.scalars(select(SeriesRow.id).where(*others)))


def _measurements(
    session: Session, named: Collection[str] = ()
) -> list[tuple[dict[str, str], list[bad_node_statistics.NodeMeasurement]]]:
    """Give the newest revisions' measurements, also of ``named`` series, by kind of hardware."""
    points = _newest(session, named)
    of_series = select(SeriesRow).where(SeriesRow.id.in_({point.series_id for point in points}))
    signs: dict[str, float] = {}
    grouped: dict[tuple[tuple[str, str], ...], list[bad_node_statistics.NodeMeasurement]] = {}
    kinds: dict[str, list[bad_node_statistics.NodeMeasurement]] = {}
    for row in session.scalars(of_series.order_by(SeriesRow.id)):
        signs[row.id] = -1.0 if row.direction == Direction.HIGHER else 1.0
        kinds[row.id] = grouped.setdefault(tuple(sorted(row.comparability.items())), [])
    for series_id, revision, worker, value in reversed(points):
        measurement = bad_node_statistics.NodeMeasurement(
            series_id, revision, worker, signs[series_id] * math.log(value)
        )
        kinds[series_id].append(measurement)
    return [(dict(key), measured) for key, measured in grouped.items()]


def _newest(session: Session, named: Collection[str]) -> Sequence[Row[str, str, str, float]]:
    """Points of the newest revisions, the newest first: series, revision, worker and value."""
    in_history = select(Revision.ordered_at).where(revisions.IN_HISTORY)
    places = in_history.order_by(Revision.ordered_at.desc()).limit(REVISIONS)
    cut = min(session.scalars(places), default=None)
    if cut is None:
        return []
    query = (
        select(Point.series_id, Point.revision, WORKER, Point.value)
        .join(SeriesRow, Point.series_id == SeriesRow.id)
        .where(or_(SeriesRow.metric == METRIC, SeriesRow.id.in_(named)))
        .where(Point.revision_at >= cut, SeriesRow.source == "")
        .where(Point.excluded.is_(False), Point.disturbed.in_(OF_THE_NODE), Point.value > 0)
        .order_by(Point.revision_at.desc(), Point.revision.desc(), Point.measured_at.desc())
        .limit(MOST)
    )
    return session.execute(query).all()


def _active(session: Session) -> dict[str, FindingRow]:
    """The open findings about nodes, by worker."""
    rows = session.scalars(
        select(FindingRow)
        .where(FindingRow.kind == findings.FindingKind.BAD_NODE, FindingRow.closed_at.is_(None))
        .order_by(FindingRow.id.desc())
    )
    return {row.worker: row for row in rows if row.worker is not None}


def _was_closed(session: Session, change: bad_node_statistics.NodeChange) -> bool:
    """Return True if a person has closed a finding about this slowdown: it gets no second one.

    A resolved finding does not count: a node that is slow all the same is news.
    """
    closed = session.scalars(
        select(FindingRow)
        .where(FindingRow.kind == findings.FindingKind.BAD_NODE, FindingRow.worker == change.worker)
        .where(
            FindingRow.closed_at.is_not(None), FindingRow.state != findings.FindingState.RESOLVED
        )
    )
    rank = revisions.rank(session, session.get_one(Revision, change.first_bad).ordered_at)
    return any(abs(revisions.rank(session, row.first_bad_at) - rank) <= NEAR for row in closed)


def _close_if_well(session: Session, row: FindingRow, kind: Compared, now: datetime) -> None:
    """Close a finding when the node is well in what it was found slow in."""
    assert row.worker is not None
    assert row.last_good is not None
    assert row.share is not None
    of_worker = kind.of(row.worker, frozenset(row.measured.get("series", ())))
    if bad_node_statistics.well_again(of_worker, kind.order, row.last_good, row.share):
        said = "as fast as the other nodes again"
        lifecycle.act(session, row.id, "resolve", lifecycle.SYSTEM_ACTOR, now, detail=said)


def open_bad_node(
    session: Session,
    change: bad_node_statistics.NodeChange,
    comparability: dict[str, str],
    now: datetime,
) -> list[str]:
    """Open a finding about a node, unless one is open; its id, if so."""
    if change.worker in _active(session) or _was_closed(session, change):
        return []
    finding_id = lifecycle.open_finding(
        session,
        now,
        change.says,
        kind=findings.FindingKind.BAD_NODE,
        cause=findings.Cause.NODE,
        certainty=change.certainty,
        attribution=None,
        measured={"series": list(change.series)},
        share=change.share,
        last_good=change.last_good,
        first_bad=change.first_bad,
        first_bad_at=session.get_one(Revision, change.first_bad).ordered_at,
        comparability=comparability,
        worker=change.worker,
        project="",
    )
    return [finding_id]
