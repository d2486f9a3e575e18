"""Stores what other tools measured: series of their own, judged like those that are measured here.

A point has no job, no worker and no result of ours, so nothing can lease it, blame a node for it or
measure it again. It is named by its content: the same point is stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, cast

import orjson
from sqlalchemy import Table, insert, select, tuple_, update
from sqlalchemy.orm import Session

from service.analysis.summary import summarise_values
from service.database.paging import Page, batched
from service.database.session import alone, found, insert_if_absent, pairs
from service.history import pending, queries, record, revisions
from service.models import EnvironmentRow, ImportedPoint, Point, Revision, SeriesRow
from service.models.project_filter import EVERYBODYS
from service.schemas.errors import Conflict, Invalid
from service.schemas.imports import Imported, ImportRequest
from service.schemas.measured_elsewhere import ForeignPoint
from service.schemas.series import ImportedCase, SeriesName

_IMPORTS = "imports"
"""What nobody else may be at meanwhile."""
_KIND = ("machine", "arch", "cpu", "cpu_model", "cpu_info", "brand", "brand_raw", "processor")
_SIZE = ("num_cpu", "num_cpus", "cpu_count", "gpu_count")
_DEVICE = ("gpu", "gpu_name", "gpu_info", "device", "device_name")
_SETTING = ("env_name", "type", "submission_platform")
HARDWARE = frozenset((*_KIND, *_SIZE, *_DEVICE, *_SETTING))
"""Facts of a machine that part series, by the last word of their dotted names: the hardware, and
what asv calls an environment, of which it measures several at one commit. Not the host, for CI
gives each run another one; not the software, for an upgrade is a change inside a series."""


@dataclass(frozen=True)
class Incoming:
    """A point with the names that follow from its content."""

    source: str
    project: str
    point: ForeignPoint

    @property
    def revision(self) -> str:
        """The commit, which every point of an import names."""
        assert self.point.revision is not None
        return self.point.revision

    @property
    def comparability(self) -> dict[str, str]:
        """The facts of its machine that part series."""
        facts = self.point.machine.items()
        return {name: fact for name, fact in facts if name.lower().rpartition(".")[2] in HARDWARE}

    @cached_property
    def case(self) -> ImportedCase:
        """Its benchmark, in the place of a case."""
        point = self.point
        return ImportedCase(
            source=self.source, workload=point.benchmark, axes=dict(point.parameters)
        )

    @cached_property
    def series_id(self) -> str:
        """The series that it belongs to; the unit is no part of it and may not change."""
        return imported_series_id(
            self.case.model_dump(), self.point.metric, self.comparability, self.project
        )

    @cached_property
    def id(self) -> str:
        """Digest of what was measured. The commit's date is said of the commit."""
        measured = self.point.model_dump(mode="json", exclude={"committed_at"})
        return _digest(self.series_id, measured)

    def row(self, now: datetime) -> dict[str, Any]:
        """The point as it came."""
        return {
            "id": self.id,
            "series_id": self.series_id,
            "revision": self.revision,
            "committed_at": self.point.committed_at,
            "received_at": now,
            "document": self.point.model_dump_json(exclude_defaults=True),
            "project": self.project,
        }

    def as_point(self, revision_at: datetime, received_at: datetime) -> dict[str, Any]:
        """The point of the series; several values give an interval as replicates do.

        Of one value the interval is the tool's own.
        """
        point, summary = self.point, summarise_values(self.point.values)
        low, high, interval = summary.low, summary.high, summary.interval
        if len(point.values) == 1 and point.low is not None and point.high is not None:
            low, high, interval = point.low, point.high, "within_run"
        return {
            "series_id": self.series_id,
            "result_id": self.id,
            "revision": self.revision,
            "revision_at": revision_at,
            "measured_at": point.at or point.committed_at or received_at,
            "value": summary.value,
            "low": low,
            "high": high,
            "interval": interval,
            "replicates": summary.replicates,
            "within": None,
            "environment": record.facts_digest(point.machine),
            "worker": None,
            "excluded": False,
            "disturbed": "",
        }


def imported_series_id(
    case: Mapping[str, Any], metric: str, comparability: Mapping[str, str], project: str
) -> str:
    """The name of the imported series that these define."""
    return _digest("imported", case, metric, comparability, project)


def _digest(*parts: object) -> str:
    return record.digest_of(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))[:32]


def store(session: Session, request: ImportRequest, now: datetime) -> Imported:
    """Store the points that are not known yet, and have their series analysed.

    Raises:
        Invalid: a point names no revision, or one revision has two dates.
        Conflict: a series would change its unit or direction.
    """
    if nameless := sum(point.revision is None for point in request.points):
        raise Invalid(
            f"{nameless} of {len(request.points)} points name no revision: say which commit they "
            "were measured at."
        )
    alone(session, _IMPORTS)
    project = request.project or ""
    every = [Incoming(request.source, project, point) for point in request.points]
    incoming = {one.id: one for one in every}
    known = _known(session, list(incoming))
    _date_again(session, known, incoming)
    fresh = [one for name, one in incoming.items() if name not in known]
    places = _register(session, every, now)
    series = _series(session, fresh, now)
    _environments(session, fresh, now)
    points = [one.as_point(places[one.revision], now) for one in fresh]
    if points:
        session.execute(insert(ImportedPoint), [one.row(now) for one in fresh])
        session.execute(insert(Point), points)
    _wait_for_analysis(session, points, now)
    return Imported(new=len(fresh), known=len(request.points) - len(fresh), series=sorted(series))


def check(session: Session, request: ImportRequest, now: datetime) -> Imported:
    """Say what `store` would do, or raise what it would; nothing is stored."""
    with session.begin_nested() as trial:
        imported = store(session, request, now)
        trial.rollback()
    return imported


def _known(session: Session, ids: Sequence[str]) -> dict[str, datetime | None]:
    """Those of these points that are stored, with the dates of their commits."""
    known: dict[str, datetime | None] = {}
    for some in batched(ids):
        columns = ImportedPoint.id, ImportedPoint.committed_at
        query = select(*columns).where(ImportedPoint.id.in_(some))
        known |= pairs(session, query)
    return known


def _date_again(
    session: Session, known: Mapping[str, datetime | None], incoming: Mapping[str, Incoming]
) -> None:
    """Note the dates of commits that known points say now: the latest word wins."""
    for name, before in known.items():
        point = incoming[name].point
        if point.committed_at not in (None, before):
            row = session.get_one(ImportedPoint, name)
            row.committed_at = point.committed_at
            row.document = point.model_dump_json(exclude_defaults=True)
            if point.at is None:  # nothing else says when it was measured
                at_place = Point.series_id == row.series_id, Point.result_id == name
                moved = update(Point).where(*at_place).values(measured_at=point.committed_at)
                session.execute(moved, execution_options={"synchronize_session": False})


def _register(session: Session, incoming: Sequence[Incoming], now: datetime) -> dict[str, datetime]:
    """Make sure that all revisions have a place in the order, and give their places.

    In the order of their names, so that two transactions never wait for each other in a ring.
    """
    names = sorted({one.revision for one in incoming})
    said, measured = _dates(incoming)
    before = _places(session, names)
    for name in names:
        at = said.get(name)
        if name not in before or at not in (None, before[name]):
            revisions.register(session, name, at, now, assumed_at=measured.get(name))
    return _places(session, names)


def _dates(incoming: Iterable[Incoming]) -> tuple[dict[str, datetime], dict[str, datetime]]:
    """The dates of commits that the points say, and when each was first measured."""
    said: dict[str, datetime] = {}
    measured: dict[str, datetime] = {}
    for one in incoming:
        name, at, committed_at = one.revision, one.point.at, one.point.committed_at
        if committed_at is not None and said.setdefault(name, committed_at) != committed_at:
            raise Invalid(f"Two points give the commit {name} different dates.")
        if at is not None:
            measured[name] = min(at, measured.get(name, at))
    return said, measured


def _places(session: Session, names: Sequence[str]) -> dict[str, datetime]:
    """The places of revisions, share-locked: a date learnt at this moment misses no new point."""
    places: dict[str, datetime] = {}
    for some in batched(names):
        query = select(Revision.name, Revision.ordered_at).where(Revision.name.in_(some))
        locked = query.order_by(Revision.name).with_for_update(read=True)
        places |= {name: at for name, at in session.execute(locked, execution_options=EVERYBODYS)}  # noqa: C416
    return places


def _series(session: Session, fresh: Iterable[Incoming], now: datetime) -> set[str]:
    """Make the series that are new; every point has its series' unit and direction."""
    firsts: dict[str, Incoming] = {}
    for one in fresh:
        first = firsts.setdefault(one.series_id, one)
        _check_same(one, first.point.unit, first.point.direction.value)
    for name, one in sorted(firsts.items()):
        row = session.get(SeriesRow, name)
        if row is None:
            insert_if_absent(session, cast(Table, SeriesRow.__table__), _new_series(one, now))
        else:
            _check_same(one, row.unit, row.direction)
    return set(firsts)


def _check_same(one: Incoming, unit: str, direction: str) -> None:
    here = (one.point.unit, one.point.direction.value)
    if here != (unit, direction):
        raise Conflict(
            f"{one.case.key} {one.point.metric} is in {unit or 'no unit'}, {direction} is better; "
            f"this import has it in {here[0] or 'no unit'}, {here[1]} is better. Convert it, or "
            "import it from another source."
        )


def _new_series(one: Incoming, now: datetime) -> dict[str, Any]:
    return {
        "id": one.series_id,
        "case_key": one.case.key,
        "case": one.case.model_dump(),
        "source": one.source,
        "metric": one.point.metric,
        "unit": one.point.unit,
        "direction": one.point.direction.value,
        "comparability": one.comparability,
        "project": one.project,
        "created_at": now,
    }


def _environments(session: Session, fresh: Iterable[Incoming], now: datetime) -> None:
    """Store what the tool says of its machines."""
    table = cast(Table, EnvironmentRow.__table__)
    machines = {record.facts_digest(one.point.machine): one.point.machine for one in fresh}
    for digest, facts in sorted(machines.items()):
        row = {"digest": digest, "facts": dict(facts), "first_seen_at": now}
        insert_if_absent(session, table, row)


def _wait_for_analysis(
    session: Session, points: Iterable[Mapping[str, Any]], now: datetime
) -> None:
    """Have each series analysed from its earliest new point on."""
    first: dict[str, Mapping[str, Any]] = {}
    for point in points:
        earliest = first.setdefault(point["series_id"], point)
        if point["revision_at"] < earliest["revision_at"]:
            first[point["series_id"]] = point
    for point in first.values():
        where = (point["revision"], point["revision_at"], point["result_id"])
        pending.mark_pending(session, now, *where)


def series_of_point(session: Session, point_id: str) -> str | None:
    """The series of an imported point; None if there is no such point."""
    row = session.get(ImportedPoint, point_id)
    return None if row is None else row.series_id


def export(
    session: Session, series_id: str, *, after: str | None, limit: int
) -> Page[ForeignPoint]:
    """A part of one series' points that count, in its order, for other tools.

    Imported ones are as they came; a measured one is its value and interval, not its samples.

    Raises:
        NotFound: there is no such series.
    """
    row = found(session, SeriesRow, series_id)
    query = (
        select(Point, ImportedPoint.document)
        .outerjoin(ImportedPoint, ImportedPoint.id == Point.result_id)
        .where(Point.series_id == series_id, *queries.COUNTED)
        .order_by(*queries.POINT_ORDER)
        .limit(limit + 1)
    )
    if after is not None:
        query = query.where(tuple_(*queries.POINT_ORDER) > queries.after_point(after))
    rows = session.execute(query).all()
    dated = _dated(session, [point.revision for point, _ in rows])
    name = queries.name_of(row)
    return Page(
        tuple(
            ForeignPoint.model_validate_json(document)
            if document
            else _measured(name, point, committed=point.revision in dated)
            for point, document in rows[:limit]
        ),
        queries.cursor_of(rows[limit - 1][0]) if len(rows) > limit else None,
    )


def _dated(session: Session, names: Sequence[str]) -> set[str]:
    query = select(Revision.name).where(Revision.name.in_(set(names)), Revision.dated)
    return set(session.scalars(query))


def _measured(series: SeriesName, point: Point, *, committed: bool) -> ForeignPoint:
    case = series.case
    return ForeignPoint(
        benchmark=f"{case.workload}:{case.preset}",
        parameters=dict(case.axes),
        metric=series.metric,
        unit=series.unit,
        direction=series.direction,
        values=(point.value,),
        low=point.low,
        high=point.high,
        revision=point.revision,
        at=point.measured_at,
        committed_at=point.revision_at if committed else None,
        machine=series.comparability,
    )
