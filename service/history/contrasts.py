"""Every series under two conditions: on two workers, in two environments, settings or times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import Any, Literal

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog import catalog
from service.analysis import contrast
from service.analysis.attribution import environment
from service.database.paging import batched
from service.history import queries
from service.models import EnvironmentRow, Point, SeriesRow
from service.schemas.errors import UnknownChoice
from service.schemas.series import ChangeVerdict, SeriesName

By = Literal["worker", "environment", "setting", "date"]
DAY = timedelta(days=1)
MOST_DAYS, MOST_POINTS = 366, 100_000
"""Longest time that a side spans, in days, and most measurements that are read of it."""
ENVIRONMENTS = 200
"""Most environments of a side whose facts are read."""
FEW = 5
"""More values than these on one side make a fact a reading, and no setting."""
ABSENT: frozenset[str | None] = frozenset({None})


@dataclass(frozen=True, slots=True)
class Sided:
    """The measurements of one side in one series."""

    series: SeriesName
    newest: str
    """The result of its newest revision."""
    logs: Mapping[str, float]
    """As `by_revision` has it: of the revisions that are compared."""
    environments: frozenset[str]

    @property
    def value(self) -> float:
        """The geometric mean over revisions."""
        return math.exp(fmean(self.logs.values()))


@dataclass(frozen=True, slots=True)
class Contrasted:
    """One case on both sides; one of them may be missing."""

    baseline: Sided | None
    contender: Sided | None
    found: contrast.SideDifference | None

    @property
    def series(self) -> SeriesName:
        """The series, as the baseline calls it."""
        side = self.baseline or self.contender
        assert side is not None
        return side.series

    @property
    def case(self) -> contracts.Case:
        """The case, as the baseline calls it."""
        return self.series.case

    @property
    def sign(self) -> int:
        """1 where more is better, else -1."""
        return 1 if self.series.direction is contracts.Direction.HIGHER else -1

    @property
    def change(self) -> float | None:
        """The change, signed so that more than zero is better."""
        return self.sign * self.found.change if self.found else None

    @property
    def change_low(self) -> float | None:
        """The lower end of its 95 % interval."""
        return min(self._ends(), default=None)

    @property
    def change_high(self) -> float | None:
        """The upper end."""
        return max(self._ends(), default=None)

    def _ends(self) -> list[float]:
        ends = (self.found.low, self.found.high) if self.found else ()
        return [self.sign * end for end in ends if end is not None]

    @property
    def verdict(self) -> ChangeVerdict:
        """The word for it."""
        if self.found is None or self.change is None:
            return ChangeVerdict.MISSING
        if not self.found.is_called:
            return ChangeVerdict.UNCLEAR
        return ChangeVerdict.FASTER if self.change > 0 else ChangeVerdict.SLOWER


@dataclass(frozen=True, slots=True)
class Apart:
    """A fact that is another on each side, whatever was measured there; None: it is absent."""

    fact: str
    baseline: frozenset[str | None]
    contender: frozenset[str | None]


def contrasts(
    session: Session,
    by: By,
    sides: tuple[str, str],
    metric: str,
    since: datetime,
    until: datetime,
    workload: str = "",
) -> list[Contrasted]:
    """Compare two sides in every series of a metric that either has measured in this time.

    Args:
        session: reads.
        by: what the sides differ by.
        sides: the names of two workers; two facts (``sw.torch=2.12.1``); two settings of one axis
            (``compile=default``); two days, or ranges of days (``2026-11-01..2026-11-07``).
        metric: of the series.
        since: when measurements begin to count; dates say it themselves.
        until: when they end.
        workload: of the series; empty: of all.

    Raises:
        UnknownChoice: a side is not written like that, or is too much to read.
    """
    named = SeriesRow.case["workload"].as_string() == workload
    chosen = [SeriesRow.metric == metric, *([named] if workload else [])]
    if by == "setting":
        measured = _measured(session, [*chosen, *_within(since, until)])
        before, after = _by_setting(measured, sides)
    else:
        in_time = [] if by == "date" else _within(since, until)
        conditions = [[*chosen, *in_time, *_condition(by, side)] for side in sides]
        before, after = (_by_series(_measured(session, one)) for one in conditions)
    both = [(before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]
    return [_contrasted(one, other) for one, other in both]


def _contrasted(one: Sided | None, other: Sided | None) -> Contrasted:
    found = contrast.contrast(one.logs, other.logs) if one and other else None
    if one and other and found and found.pairs:
        one, other = (
            replace(side, logs={r: side.logs[r] for r in one.logs.keys() & other.logs.keys()})
            for side in (one, other)
        )
    return Contrasted(one, other, found)


Key = tuple[object, ...]


def _by_series(measured: Iterable[Sided]) -> dict[Key, Sided]:
    return {(one.series.id,): one for one in measured}


def _by_setting(measured: Sequence[Sided], sides: tuple[str, str]) -> Iterator[dict[Key, Sided]]:
    """Split series by two settings of one axis; keys say what they are beside that."""
    (axis, _, one), (of, _, other) = (side.partition("=") for side in sides)
    if axis != of or not one or not other:
        raise UnknownChoice(
            "Two settings of one axis are compared, as compile=off and compile=default: "
            f"{sides[0]!r}, {sides[1]!r}."
        )
    default = catalog.axes()[axis].default if axis in catalog.axes() else ""
    for wanted in (one, other):
        having = (s for s in measured if s.series.case.axes.get(axis, default) == wanted)
        yield {_without(side.series, axis): side for side in having}


def _condition(by: By, side: str) -> list[ColumnElement[bool]]:
    if by == "worker":
        return [queries.WORKER.element == side]
    if by == "date":
        return _within(*days(side))
    fact, equals, value = side.partition("=")
    if not equals:
        raise UnknownChoice(f"An environment is named by a fact, as sw.torch=2.12.1: {side!r}.")
    told = EnvironmentRow.facts[fact].as_string() == value
    return [Point.environment.in_(select(EnvironmentRow.digest).where(told))]


def _within(since: datetime, until: datetime) -> list[ColumnElement[bool]]:
    if until - since > MOST_DAYS * DAY:
        raise UnknownChoice(
            f"A side spans {MOST_DAYS} days at most: {since:%Y-%m-%d} to {until:%Y-%m-%d}; choose "
            "a shorter time."
        )
    return [Point.measured_at >= since, Point.measured_at < until]


def days(text: str) -> tuple[datetime, datetime]:
    """The first moment of a day, or range of days, and the first after it, in UTC.

    Raises:
        UnknownChoice: it is neither.
    """
    first, _, last = text.partition("..")
    try:
        begin, end = (date.fromisoformat(day) for day in (first, last or first))
        whole = [datetime.combine(day, time.min, UTC) for day in (begin, end + DAY)]
        return whole[0], whole[1]
    except (ValueError, OverflowError):
        raise UnknownChoice(
            f"A time is a day or a range of days, as 2026-11-01..2026-11-07: {text!r}."
        ) from None


def _without(series: SeriesName, axis: str) -> Key:
    """The key that two series of one case, but for one axis, have in common."""
    rest = {name: value for name, value in series.case.axes.items() if name != axis}
    facts = tuple(sorted(series.comparability.items()))
    case = series.case
    return series.project, case.workload, case.preset, tuple(sorted(rest.items())), facts


def _measured(session: Session, conditions: Sequence[ColumnElement[bool]]) -> list[Sided]:
    """Read measurements under some conditions, series by series, from plain cases on.

    One statement counts and reads: a result that arrives meanwhile is in both or in neither.
    """
    order = (SeriesRow.case_key, SeriesRow.id, Point.revision_at, Point.measured_at)
    shown = (SeriesRow.id, Point.revision, Point.value, Point.result_id, Point.environment)
    few = (
        select(*(column.label(f"c{place}") for place, column in enumerate((*shown, *order))))
        .join(Point, Point.series_id == SeriesRow.id)
        .where(*queries.COUNTED, *conditions)
        .limit(MOST_POINTS + 1)
        .subquery()
    )
    read, by = few.c[: len(shown)], few.c[len(shown) :]
    rows = session.execute(select(*read).order_by(*by)).all()
    if len(rows) > MOST_POINTS:
        raise UnknownChoice(
            f"A side has more than {MOST_POINTS:,} measurements, too many to compare at once: "
            "choose a workload or a shorter time."
        )
    names: dict[str, SeriesName] = {}
    for some in batched(list({row[0] for row in rows})):
        known = session.scalars(select(SeriesRow).where(SeriesRow.id.in_(some)))
        names |= {row.id: queries.name_of(row) for row in known}
    points = groupby(rows, itemgetter(0))
    sided = (_sided(names[series_id], of) for series_id, of in points)
    return [side for side in sided if side.logs]


def _sided(series: SeriesName, points: Iterable[Sequence[Any]]) -> Sided:
    _, revisions, values, results, digests = zip(*points, strict=True)
    logs = contrast.by_revision(zip(revisions, values, strict=True))
    return Sided(series, results[-1], logs, frozenset(digests))


def environments(rows: Iterable[Contrasted]) -> tuple[set[str], set[str]]:
    """The environments that each side was measured in, by digest."""
    before: set[str] = set()
    after: set[str] = set()
    for row in rows:
        before.update(row.baseline.environments if row.baseline else ())
        after.update(row.contender.environments if row.contender else ())
    return before, after


def varied_facts(session: Session) -> list[str]:
    """Facts of the newest environments that differ between them, as ``sw.torch=2.12.1``."""
    seen = EnvironmentRow.digest.in_(select(Point.environment))
    newest = select(EnvironmentRow.digest).where(seen).order_by(EnvironmentRow.first_seen_at.desc())
    known = _values(session, set(session.scalars(newest.limit(ENVIRONMENTS))))
    varied = {
        fact: values
        for fact, values in known.items()
        if 1 < len(values) <= FEW and environment.telling(fact) and fact not in environment.DIGESTS
    }
    return [
        f"{fact}={one}" for fact in sorted(varied) for one in sorted(filter(None, varied[fact]))
    ]


def apart(session: Session, baseline: set[str], contender: set[str]) -> list[Apart]:
    """The facts that are never the same in two groups of environments, by digest.

    What only names a machine, or code, does not count.
    """
    before, after = (_values(session, known) for known in (baseline, contender))
    found = [
        Apart(fact, before.get(fact, ABSENT), after.get(fact, ABSENT))
        for fact in sorted(before.keys() | after.keys())
    ]
    return [one for one in found if _tells(one)]


def _values(session: Session, digests: set[str]) -> dict[str, frozenset[str | None]]:
    """The values of each fact in some environments; None where one has no such fact."""
    chosen = EnvironmentRow.digest.in_(sorted(digests)[:ENVIRONMENTS])
    every = session.scalars(select(EnvironmentRow.facts).where(chosen)).all()
    names = {name for facts in every for name in facts}
    return {name: frozenset(facts.get(name) for facts in every) for name in names}


def _tells(one: Apart) -> bool:
    if one.fact in environment.DIGESTS or max(len(one.baseline), len(one.contender)) > FEW:
        return False
    return all(environment.changed(one.fact, a, b) for a in one.baseline for b in one.contender)
