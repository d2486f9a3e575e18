"""Ranks cases by their newest points: the best, those as good, and what it overtook. Pure.

A case is measured on some nights, so one case is surely faster than another only if the difference
is beyond what their numbers vary from night to night, by the noise of both series. Where a history
is too short to tell its noise, a difference below `UNKNOWN_NOISE` says nothing, and none is sure.

Another batch, other samples or another size is another training: such cases rank apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from service.analysis import contrast
from service.analysis.variance import Spread
from service.history import compare
from service.schemas.best import BestCase, Overtaken, RankedCase
from service.schemas.series import Ratio, Series, SeriesName, SeriesPoint

LATELY = timedelta(days=30)
"""An older newest point ranks no more: the case is not measured any longer."""
BEFORE = timedelta(days=14)
"""Age of the ranking that today's best is compared with."""
REVISIONS = 30
"""Newest revisions that are looked at: those of a busy day may reach back less than `BEFORE`."""
UNKNOWN_NOISE = 0.1
"""Noise of series goes from 0.2 to 16 %; where it is unknown, less than this is no difference."""

CaseId = tuple[str, str, frozenset[tuple[str, str]]]
"""Key of a case, project and hardware."""
Failures = Mapping[CaseId, Sequence[tuple[datetime, datetime]]]
"""Places in the order of revisions, and times, at which a case failed parity."""


@dataclass(frozen=True, slots=True)
class KnownOfCases:
    """The facts beside the points: failed parity, and noise by series."""

    failures: Failures = field(default_factory=dict)
    spreads: Mapping[str, Spread] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """A case with the point that it is ranked by."""

    series: Series
    point: SeriesPoint

    @property
    def ranked(self) -> RankedCase:
        """The case as the API names it."""
        identity = {"case": self.series.case, "series_id": self.series.id}
        return RankedCase.of(self.point, **identity)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The cases of one training on one kind of hardware, the fastest first."""

    best: BestCase
    standings: tuple[Standing, ...]


def rank(series: Sequence[Series], known: KnownOfCases, now: datetime) -> list[Ranking]:
    """Rank the cases of each workload, preset, size, kind of hardware and project.

    ``series`` are of throughput, with points that count in the order of revisions.
    """
    groups: dict[tuple[str, ...], list[Series]] = {}
    for one in series:
        hardware = repr(sorted(one.comparability.items()))
        size = repr(sorted(sizes(one.case).items()))
        key = (one.case.workload, one.case.preset, size, hardware, one.project, one.unit)
        groups.setdefault(key, []).append(one)
    rankings = []
    for _, members in sorted(groups.items()):
        if standings := _standings(members, known, now):
            best = _best(standings, members, known, now)
            rankings.append(Ranking(best, tuple(standings)))
    return rankings


def sizes(case: Case) -> dict[str, str]:
    """Return the axes that make it another training: the batch, sizes of its samples, devices."""
    known = catalog.axes()
    return {
        name: value
        for name, value in case.axes.items()
        if name in {"batch", "lengths"}
        or (name in known and (known[name].size or known[name].role == "devices"))
    }


def is_ranked_in(series: SeriesName, best: BestCase) -> bool:
    """Return True if a series of throughput belongs to the cases that ``best`` leads."""
    case = series.case
    mine = case.workload, case.preset, sizes(case), series.comparability, series.project
    return mine == (best.workload, best.preset, best.sizes, best.comparability, best.project)


def case_id(case_key: str, project: str, comparability: Mapping[str, str]) -> CaseId:
    """Return the key by which failures are matched to the series of their case."""
    return case_key, project, frozenset(comparability.items())


def _best(
    standings: Sequence[Standing], members: Sequence[Series], known: KnownOfCases, now: datetime
) -> BestCase:
    best, *others = standings
    first, rates = best.series, [one.point.value for one in standings]
    baseline = _baseline(best, standings)
    return BestCase(
        workload=first.case.workload,
        preset=first.case.preset,
        sizes=sizes(first.case),
        project=first.project,
        comparability=first.comparability,
        unit=first.unit,
        best=best.ranked,
        baseline=baseline and baseline.ranked,
        over_baseline=None if baseline in (None, best) else _ratio(best, baseline, known),
        cases=len(standings),
        median=median(rates),
        worst=rates[-1],
        as_good=[one.ranked for one in others if not _told_apart(best, one, known)],
        overtaken=_overtaken(members, best, known, now),
    )


def _standings(members: Sequence[Series], known: KnownOfCases, at: datetime) -> list[Standing]:
    """Rank the cases as they were at a time, the fastest first."""
    found = (_standing(one, known, at) for one in members)
    standings = [standing for standing in found if standing is not None]
    return sorted(standings, key=lambda one: (-one.point.value, one.series.case.key))


def _standing(series: Series, known: KnownOfCases, at: datetime) -> Standing | None:
    """The newest point at a time; None if it is old, or parity failed since.

    A revision has one point, the soundest: what passed again at the same revision may not be it.
    """
    until = [point for point in series.points if point.measured_at <= at]
    if not until or at - until[-1].measured_at > LATELY or until[-1].value <= 0:
        return None
    newest = until[-1]
    name = case_id(series.case.key, series.project, series.comparability)
    place = newest.revision_at, newest.measured_at
    failed = any(place < failure and failure[1] <= at for failure in known.failures.get(name, ()))
    return None if failed else Standing(series, newest)


def _baseline(best: Standing, standings: Sequence[Standing]) -> Standing | None:
    case = best.series.case
    for wanted in (catalog.baseline(case), case.model_copy(update={"axes": sizes(case)})):
        for one in standings:
            if one.series.case == wanted:
                return one
    return None


def _overtaken(
    members: Sequence[Series], best: Standing, known: KnownOfCases, now: datetime
) -> Overtaken | None:
    earlier = _standings(members, known, _before(members, now))
    former = next(iter(earlier), None)
    if former is None or former.series is best.series:
        return None
    then = next((one.point.value for one in earlier if one.series is best.series), None)
    still = _standing(former.series, known, now)
    if still is None or not _surely_faster(best, still, known):
        return None
    since = _ahead_since(best.series, former.series)
    return Overtaken(
        before=still.ranked,
        since_revision=since.revision,
        since=since.measured_at,
        faster=_ratio(best, still, known),
        gained=None if then is None else best.point.value / then - 1,
        lost=still.point.value / former.point.value - 1,
    )


def _before(members: Sequence[Series], now: datetime) -> datetime:
    """Return the time `BEFORE` now, or that of `REVISIONS` ago if that is newer."""
    measured: dict[tuple[datetime, str], datetime] = {}
    for point in (point for one in members for point in one.points):
        place = point.revision_at, point.revision
        measured[place] = max(point.measured_at, measured.get(place, point.measured_at))
    if len(measured) < REVISIONS:
        return now - BEFORE
    return max(now - BEFORE, measured[sorted(measured)[-REVISIONS]])


def _ahead_since(best: Series, former: Series) -> SeriesPoint:
    """Find the point from which on the newest point of ``best`` was above that of ``former``."""
    points = [(point, one is best) for one in (best, former) for point in one.points]
    points.sort(key=lambda pair: (pair[0].revision_at, pair[0].revision, pair[0].measured_at))
    of_best, of_former = -math.inf, -math.inf
    since = None
    for point, is_best in points:
        of_best, of_former = (point.value, of_former) if is_best else (of_best, point.value)
        since = (since or point) if of_best > of_former else None
    return since or best.points[-1]


def _told_apart(best: Standing, other: Standing, known: KnownOfCases) -> bool:
    if _half_width(best, other, known, contrast.CALLED) is None:
        return best.point.value / other.point.value - 1 >= UNKNOWN_NOISE
    return _surely_faster(best, other, known)


def _surely_faster(best: Standing, other: Standing, known: KnownOfCases) -> bool:
    half = _half_width(best, other, known, contrast.CALLED)
    ratio = best.point.value / other.point.value
    across = best.point.worker != other.point.worker
    least = compare.LEAST_EFFECT_ACROSS if across else contrast.LEAST_EFFECT
    return half is not None and ratio - 1 >= least and math.log(ratio) > half


def _ratio(best: Standing, other: Standing, known: KnownOfCases) -> Ratio:
    value = best.point.value / other.point.value
    half = _half_width(best, other, known, contrast.SHOWN)
    if half is None:
        return Ratio(value, None, None)
    return Ratio(value, value * math.exp(-half), value * math.exp(half))


def _half_width(
    one: Standing, other: Standing, known: KnownOfCases, confidence: float
) -> float | None:
    """Half-width of the ratio of two cases, on the logarithm; None where a noise is unknown."""
    same_node = one.point.worker == other.point.worker
    first, second = (
        _noise(standing.point, known.spreads.get(standing.series.id), confidence, same_node)
        for standing in (one, other)
    )
    return None if first is None or second is None else math.hypot(first, second)


def _noise(
    point: SeriesPoint, spread: Spread | None, confidence: float, same_node: bool
) -> float | None:
    """Half-width of one point about what its case gives, on the logarithm; None where unknown.

    From three processes on, it is at least as wide as they themselves say.
    """
    both = point.replicates, point.replicates
    if spread is None:
        return None
    apart = spread.apart(both, confidence, same_night=False, same_node=same_node)
    if apart is None:
        return None
    seen = 0.0
    replicated = point.interval == "replicates" and point.replicates >= compare.ENOUGH
    if replicated and point.low is not None and point.high is not None:
        seen = (point.high - point.low) / 2 / point.value
    return max(apart / math.sqrt(2), seen)
