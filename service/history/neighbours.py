"""Reads what the cases around a result gave: same workload, same revision, same hardware."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Row, func, or_, select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog.metrics import RATES
from benchmarks.diagnosis.suggestions import Neighbour, distance
from service.analysis.summary import summarise
from service.history.queries import COUNTED, taken_out
from service.history.types import StoredResult
from service.models import Point, Revision, SeriesRow

_MOST = 2_000
"""Series that are read, those of the most similar cases first; a night has a few hundred."""

_Columns = tuple[str, str, dict[str, object], dict[str, str]]
_Place = tuple[str, str, frozenset[tuple[str, str]]]
"""Metric, case and hardware: what there is one rate of."""
_Group = tuple[str, str, frozenset[tuple[str, str]]]
"""Workload, preset and hardware: cases of another one say nothing."""


@dataclass(frozen=True, slots=True)
class MeasuredNeighbour:
    """One case of a revision, by one of the two rates and on one kind of hardware."""

    metric: str
    comparability: dict[str, str]
    neighbour: Neighbour

    @property
    def place(self) -> _Place:
        """The metric, case and hardware that have this one rate."""
        return self.metric, self.neighbour.case.key, frozenset(self.comparability.items())


def measured_at(
    session: Session, project: str, revision: str, around: Collection[contracts.Result]
) -> list[MeasuredNeighbour]:
    """Give the rates of the cases around these results at a revision, in two queries.

    Args:
        session: to read in.
        project: whose histories are looked into.
        revision: that was measured.
        around: results whose workload, preset and hardware are wanted.
    """
    series = _series(session, project, around) if around else []
    rates = _means(session, revision, [row.id for row, _ in series])
    return [
        MeasuredNeighbour(row.metric, row.comparability, Neighbour(case, rates[row.id]))
        for row, case in series
        if row.id in rates
    ]


def measured_in(session: Session, results: Sequence[StoredResult]) -> list[MeasuredNeighbour]:
    """Give the rates of these results, each in a history or in none, in one query.

    Excluded results count for nothing. Several of one case and hardware count by their mean.
    """
    out = taken_out(session, [part for one in results for part in one.parts]).keys()
    rates: dict[_Place, list[MeasuredNeighbour]] = {}
    for one in results:
        if one.result.status is contracts.Status.OK and out.isdisjoint(one.parts):
            for beside in _gave(one.result):
                rates.setdefault(beside.place, []).append(beside)
    return [
        replace(same[0], neighbour=Neighbour(same[0].neighbour.case, _mean(same)))
        for same in rates.values()
    ]


def neighbours_of(
    result: contracts.Result, metric: str, among: Iterable[MeasuredNeighbour]
) -> list[Neighbour]:
    """Those that a result may be held against, by ``metric``."""
    hardware = result.environment.comparability()
    return [
        beside.neighbour
        for beside in among
        if beside.metric == metric
        and beside.neighbour.case.workload == result.case.workload
        and beside.comparability == hardware
    ]


def _gave(result: contracts.Result) -> Iterator[MeasuredNeighbour]:
    comparability = result.environment.comparability()
    for sample in result.samples:
        if sample.metric in RATES:
            mean = summarise(sample).value
            yield MeasuredNeighbour(sample.metric, comparability, Neighbour(result.case, mean))


def _mean(same: Sequence[MeasuredNeighbour]) -> float:
    # Divided first, so that huge values cannot overflow the sum.
    return sum(beside.neighbour.rate / len(same) for beside in same)


def _series(
    session: Session, project: str, around: Collection[contracts.Result]
) -> list[tuple[Row[_Columns], contracts.Case]]:
    """The series of the results' groups, with their cases: the most similar, where they are many.

    The hardware is compared here, as JSON has no equality in PostgreSQL.
    """
    groups: dict[_Group, list[contracts.Case]] = {}
    for result in around:
        group = _group(result.case, result.environment.comparability())
        groups.setdefault(group, []).append(result.case)
    rows = []
    for row in _candidates(session, project, {group[:2] for group in groups}):
        case = contracts.Case.model_validate(row.case)
        if near := groups.get(_group(case, row.comparability)):
            rows.append((min(distance(case, one) for one in near), row, case))
    rows.sort(key=lambda entry: (entry[0], entry[1].id))
    return [(row, case) for _, row, case in rows[:_MOST]]


def _candidates(
    session: Session, project: str, named: Collection[tuple[str, str]]
) -> Sequence[Row[_Columns]]:
    """Every series of a rate of these workloads and presets, on whatever hardware."""
    begins = (
        SeriesRow.case_key.startswith(f"{workload}:{preset}", autoescape=True)
        for workload, preset in sorted(named)
    )
    query = select(SeriesRow.id, SeriesRow.metric, SeriesRow.case, SeriesRow.comparability)
    rates = (SeriesRow.project == project, SeriesRow.metric.in_(RATES))
    return session.execute(query.where(*rates, or_(*begins))).all()


def _group(case: contracts.Case, comparability: dict[str, str]) -> _Group:
    return case.workload, case.preset, frozenset(comparability.items())


def _means(session: Session, revision: str, series: Sequence[str]) -> dict[str, float]:
    """The mean of each series at a revision; of those that have one.

    All points of a revision stand at its own time, which is what the primary key goes on with after
    the series: a revision may have many times the points that are asked for.
    """
    if not series:
        return {}
    placed_at = select(Revision.ordered_at).where(Revision.name == revision).scalar_subquery()
    query = (
        select(Point.series_id, func.avg(Point.value))
        .where(
            Point.series_id.in_(series),
            Point.revision_at == placed_at,
            Point.revision == revision,
            *COUNTED,
        )
        .group_by(Point.series_id)
    )
    return {series_id: float(mean) for series_id, mean in session.execute(query)}
