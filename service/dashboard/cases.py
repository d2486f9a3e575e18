"""The table of cases: each series' newest value against its level and its baseline. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from markupsafe import Markup

from benchmarks import contracts
from benchmarks.catalog import catalog
from benchmarks.catalog.metrics import metric
from service.analysis.variance import Spread
from service.dashboard import labels
from service.dashboard.query_params import CasesAddress
from service.dashboard.sparkline import sparkline
from service.history import compare
from service.history.failing import FailingCase
from service.history.ranking import CaseId, case_id
from service.schemas.series import RevisionChange, Series, SeriesPoint
from service.wording import formats


@dataclass(frozen=True, slots=True)
class Speedup:
    """The factor by which a case is better than its baseline, both measured at one revision."""

    value: float
    low: float | None
    high: float | None
    revision: str
    sure: bool
    """Whether the interval rests on fresh processes on both sides and leaves out 1."""


@dataclass(frozen=True, slots=True)
class LevelDifference:
    """How far the newest value lies from the level of its series."""

    change: float
    """As a share of the level, signed so that more than zero is better."""
    level: float
    reach: float | None
    """95 % half-width of what one night varies, as a share; None if one night alone is known."""

    @property
    def is_unusual(self) -> bool:
        """Return True if a night does not vary so much."""
        return self.reach is not None and abs(self.change) > self.reach


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of series beside their points."""

    verdicts: Mapping[str, contracts.Verdict] = field(default_factory=dict)
    """What limits results, by id."""
    renewed: Collection[str] = ()
    """Results that were measured in a changed environment."""
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    """How series vary around their level, by id."""
    failing: Mapping[CaseId, FailingCase] = field(default_factory=dict)
    effects: Mapping[str, float] = field(default_factory=dict)
    """What the newest open finding says of series, by id."""


NOTHING = Beside()


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One series in the table."""

    series: Series
    latest: SeriesPoint
    difference: LevelDifference | None
    """Against the level; None where the history is too short to have one."""
    change: RevisionChange | None
    """Against the revision before, where there is no level."""
    speedup: Speedup | None
    """Against the baseline of the same group; None for the baseline itself."""
    is_baseline: bool
    verdict: contracts.Verdict | None
    environment_changed: bool
    """Whether the latest point's environment is not that of the point before."""
    spark: Markup
    failing: FailingCase | None
    """Set where the case failed since its newest value was measured."""
    moved: float
    """Size of the change that the row shows, that of a finding first; orders rows."""


@dataclass(frozen=True, slots=True)
class CaseGroup:
    """The series of one workload and preset on one kind of hardware."""

    workload: str
    preset: str
    hardware: str
    comparability: Mapping[str, str]
    shared: Mapping[str, str]
    """What every case of the group sets alike, so that rows need not repeat it."""
    rows: tuple[CaseRow, ...]
    project: str = ""
    """Empty: they belong to none."""


def change(series: Series, known: compare.Known = compare.NOTHING) -> RevisionChange | None:
    """Compare the newest revision that counts with the one before; None if there is only one."""
    names = list(dict.fromkeys(point.revision for point in _counted(series)))
    return compare.compare(series, names[-2], names[-1], known=known) if len(names) > 1 else None


def _counted(series: Series) -> list[SeriesPoint]:
    return [point for point in series.points if point.counts]


def speedup(series: Series, baseline: Series | None) -> Speedup | None:
    """Hold a case against its baseline at the latest revision where both count; None without."""
    if baseline is None or baseline is series:
        return None
    bases = {point.revision: point for point in _counted(baseline)}
    newest_first = reversed(_counted(series))
    newest = next((point for point in newest_first if point.revision in bases), None)
    if newest is None:
        return None
    base = bases[newest.revision]
    higher = series.direction is contracts.Direction.HIGHER
    ratio = compare.ratio(newest, base) if higher else compare.ratio(base, newest)
    if ratio is None:
        return None
    apart = ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high
    sure = apart and {newest.interval, base.interval} == {"replicates"}
    return Speedup(ratio.value, ratio.low, ratio.high, newest.revision, sure)


def against_level(series: Series, spread: Spread | None) -> LevelDifference | None:
    """Hold the newest value against the level of its series; None without a level above zero."""
    if spread is None or spread.level <= 0:
        return None
    newest = series.points[-1]
    return from_level(newest.value, newest.replicates, series.direction, spread)


def from_level(
    value: float, replicates: int, direction: contracts.Direction, spread: Spread
) -> LevelDifference:
    """Hold a value of so many processes against a level above zero."""
    ratio = value / spread.level - 1.0
    reach = spread.next_night(replicates)
    return LevelDifference(
        change=ratio if direction is contracts.Direction.HIGHER else -ratio,
        level=spread.level,
        reach=None if reach is None else math.expm1(reach),
    )


def is_chosen(
    series: Series, at: CasesAddress, marks: Collection[str], failing: Mapping[CaseId, FailingCase]
) -> bool:
    """Return True if a series fits the choices that need no points."""
    if at.workload not in {"", series.case.workload}:
        return False
    if at.hardware not in {"", formats.hardware(series.comparability)}:
        return False
    if at.project not in {"", series.project}:
        return False
    if at.show == "failing":
        return id_of(series) in failing
    return at.show != "changed" or series.id in marks


def id_of(series: Series) -> CaseId:
    """Name the case of a series on its hardware, as failures are named."""
    return case_id(series.case.key, series.project, series.comparability)


def groups(series: Sequence[Series], beside: Beside = NOTHING, sort: str = "") -> list[CaseGroup]:
    """Sort series into groups, simple cases first, and hold each against its baseline.

    ``series`` have one point a revision and only such as count, as `latest_of_each_series` gives
    them; ``sort`` orders the rows of a group as `CasesAddress` says.
    """
    members: dict[tuple[str, str, str, str], list[Series]] = {}
    for one in series:
        if one.points:
            hardware = repr(sorted(one.comparability.items()))
            measured = f"from {one.source}" if one.source else one.case.preset
            key = (one.case.workload, measured, hardware, one.project)
            members.setdefault(key, []).append(one)
    return [
        CaseGroup(
            workload,
            preset,
            formats.hardware(of_group[0].comparability),
            of_group[0].comparability,
            _shared(of_group),
            _ordered(_rows(of_group, beside), sort),
            project,
        )
        for (workload, preset, _, project), of_group in sorted(members.items())
    ]


def _ordered(rows: tuple[CaseRow, ...], sort: str) -> tuple[CaseRow, ...]:
    if sort == "change":
        return tuple(sorted(rows, key=lambda row: -row.moved))
    if sort == "value":
        return tuple(sorted(rows, key=_from_best))
    return rows


def _from_best(row: CaseRow) -> float:
    value = row.latest.value
    return -value if row.series.direction is contracts.Direction.HIGHER else value


def _shared(series: Sequence[Series]) -> dict[str, str]:
    if len(series) < 2:
        return {}
    alike = set.intersection(*(set(one.case.axes.items()) for one in series))
    return dict(alike)


def _rows(series: Sequence[Series], beside: Beside) -> tuple[CaseRow, ...]:
    # A case has a series of its own for each unit that it was ever measured in.
    known = {(one.case.key, one.unit): one for one in series}
    ordered = sorted(series, key=lambda one: labels.rank(one.case))
    return tuple(
        _row(one, known.get((catalog.baseline(one.case).key, one.unit)), beside) for one in ordered
    )


def _row(series: Series, baseline: Series | None, beside: Beside) -> CaseRow:
    points = series.points
    latest = points[-1]
    difference = against_level(series, beside.spreads.get(series.id))
    before = None if difference else change(series)
    shown = difference.change if difference else (before.change if before else None)
    return CaseRow(
        series=series,
        latest=latest,
        difference=difference,
        change=before,
        speedup=speedup(series, baseline),
        is_baseline=baseline is series,
        verdict=beside.verdicts.get(latest.result_id),
        environment_changed=latest.result_id in beside.renewed,
        spark=sparkline(
            [point.value for point in points], _spark_label(series), _usual_interval(points)
        ),
        failing=beside.failing.get(id_of(series)),
        moved=abs(beside.effects.get(series.id, shown or 0.0)),
    )


def _usual_interval(points: Sequence[SeriesPoint]) -> float:
    known = [(point.low, point.high) for point in points]
    widths = [high - low for low, high in known if low is not None and high is not None]
    return median(widths) if widths else 0.0


def _spark_label(series: Series) -> str:
    values = [point.value for point in series.points]
    low, high = (formats.quantity(end, series.unit) for end in (min(values), max(values)))
    return f"{metric(series.metric).title}, last {len(values)} revisions: {low} to {high}"


def matching(groups_: Sequence[CaseGroup], text: str) -> list[CaseGroup]:
    """Keep the rows whose case, hardware, revision or verdict holds every word of ``text``."""
    words = text.lower().split()
    kept = []
    for group in groups_:
        rows = tuple(row for row in group.rows if all(w in _said(group, row) for w in words))
        if rows:
            kept.append(replace(group, rows=rows))
    return kept


def _said(group: CaseGroup, row: CaseRow) -> str:
    verdict = row.verdict.sentence if row.verdict else ""
    bound = labels.BOTTLENECKS[row.verdict.bottleneck] if row.verdict else ""
    parts = (row.series.case.key, group.hardware, row.latest.revision, row.latest.worker)
    return " ".join((*parts, group.project, verdict, bound)).lower()
