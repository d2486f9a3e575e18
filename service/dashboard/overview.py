"""The overview's rows: each series' latest value beside the one before and its baseline. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from markupsafe import Markup

from benchmarks import contracts
from benchmarks.catalog import catalog
from benchmarks.catalog.metrics import metric
from service.dashboard import labels
from service.dashboard.sparkline import sparkline
from service.history import compare
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
class OverviewRow:
    """One series on the overview."""

    series: Series
    latest: SeriesPoint
    change: RevisionChange | None
    speedup: Speedup | None
    """Against the baseline of the same group; None for the baseline itself."""
    is_baseline: bool
    verdict: contracts.Verdict | None
    environment_changed: bool
    """Whether the latest point's environment is not that of the point before."""
    spark: Markup


@dataclass(frozen=True, slots=True)
class SeriesGroup:
    """The series of one workload and preset on one kind of hardware."""

    workload: str
    preset: str
    hardware: str
    comparability: Mapping[str, str]
    shared: Mapping[str, str]
    """What every case of the group sets alike, so that rows need not repeat it."""
    rows: tuple[OverviewRow, ...]
    project: str = ""
    """Empty: they belong to none."""


def by_revision(series: Series) -> Series:
    """Keep of each revision the one measurement that counts which a comparison takes as well."""
    measured: dict[str, list[SeriesPoint]] = {}
    for point in _counted(series):
        measured.setdefault(point.revision, []).append(point)
    kept = [_soundest(series, points) for points in measured.values()]
    return replace(series, points=tuple(kept))


def _soundest(series: Series, points: Sequence[SeriesPoint]) -> SeriesPoint:
    """Of measurements of one revision, so that a value and its change are about the same one."""
    name = points[0].revision
    change = (
        compare.compare(replace(series, points=tuple(points)), name, name)
        if len(points) > 1
        else None
    )
    return change.contender if change and change.contender else points[-1]


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


def groups(
    series: Sequence[Series],
    verdicts: Mapping[str, contracts.Verdict],
    renewed: Collection[str] = (),
) -> list[SeriesGroup]:
    """Sort series into groups, simple cases first, and hold each against its baseline.

    ``series`` have one point a revision and only such as count, as `latest_of_each_series` gives
    them; ``renewed`` are the results among them that were measured in a changed environment.
    """
    members: dict[tuple[str, str, str, str], list[Series]] = {}
    for one in series:
        if one.points:
            hardware = repr(sorted(one.comparability.items()))
            measured = f"from {one.source}" if one.source else one.case.preset
            key = (one.case.workload, measured, hardware, one.project)
            members.setdefault(key, []).append(one)
    return [
        SeriesGroup(
            workload,
            preset,
            formats.hardware(cases[0].comparability),
            cases[0].comparability,
            _shared(cases),
            _rows(cases, verdicts, renewed),
            project,
        )
        for (workload, preset, _, project), cases in sorted(members.items())
    ]


def _shared(series: Sequence[Series]) -> dict[str, str]:
    if len(series) < 2:
        return {}
    alike = set.intersection(*(set(one.case.axes.items()) for one in series))
    return dict(alike)


def _rows(
    series: Sequence[Series],
    verdicts: Mapping[str, contracts.Verdict],
    renewed: Collection[str],
) -> tuple[OverviewRow, ...]:
    # A case has a series of its own for each unit that it was ever measured in.
    known = {(one.case.key, one.unit): one for one in series}
    ordered = sorted(series, key=lambda one: labels.rank(one.case))
    return tuple(
        _row(one, known.get((catalog.baseline(one.case).key, one.unit)), verdicts, renewed)
        for one in ordered
    )


def _row(
    series: Series,
    baseline: Series | None,
    verdicts: Mapping[str, contracts.Verdict],
    renewed: Collection[str],
) -> OverviewRow:
    points = series.points
    latest = points[-1]
    return OverviewRow(
        series=series,
        latest=latest,
        change=change(series),
        speedup=speedup(series, baseline),
        is_baseline=baseline is series,
        verdict=verdicts.get(latest.result_id),
        environment_changed=latest.result_id in renewed,
        spark=sparkline(
            [point.value for point in points], _spark_label(series), _usual_interval(points)
        ),
    )


def _usual_interval(points: Sequence[SeriesPoint]) -> float:
    known = [(point.low, point.high) for point in points]
    widths = [high - low for low, high in known if low is not None and high is not None]
    return median(widths) if widths else 0.0


def _spark_label(series: Series) -> str:
    values = [point.value for point in series.points]
    low, high = (formats.quantity(end, series.unit) for end in (min(values), max(values)))
    return f"{metric(series.metric).title}, last {len(values)} revisions: {low} to {high}"


def matching(groups_: Sequence[SeriesGroup], text: str) -> list[SeriesGroup]:
    """Keep the rows whose case, hardware, revision or verdict hold every word of ``text``."""
    words = text.lower().split()
    kept = []
    for group in groups_:
        rows = tuple(row for row in group.rows if all(w in _said(group, row) for w in words))
        if rows:
            kept.append(replace(group, rows=rows))
    return kept


def _said(group: SeriesGroup, row: OverviewRow) -> str:
    verdict = row.verdict.sentence if row.verdict else ""
    bound = labels.BOTTLENECKS[row.verdict.bottleneck] if row.verdict else ""
    parts = (row.series.case.key, group.hardware, row.latest.revision, row.latest.worker)
    return " ".join((*parts, group.project, verdict, bound)).lower()
