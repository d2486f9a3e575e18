"""The overview's rows: each series' latest value beside the one before and its baseline. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from benchmarks import catalog
from benchmarks.contracts import Direction, Verdict
from service import formats
from service.comparison import Change, compare, ratio
from service.dashboard import words
from service.dashboard.figures import environment_changes
from service.dashboard.sparkline import sparkline
from service.results import Series, SeriesPoint


@dataclass(frozen=True, slots=True)
class Row:
    """One series on the overview."""

    series: Series
    latest: SeriesPoint
    change: Change | None
    speedup: float | None
    """Against the baseline of the same group; None for the baseline itself."""
    is_baseline: bool
    verdict: Verdict | None
    environment_changed: bool
    """Whether the latest point's environment is not that of the point before."""
    spark: Markup


@dataclass(frozen=True, slots=True)
class Group:
    """The series of one workload and preset on one kind of hardware."""

    workload: str
    preset: str
    hardware: str
    comparability: Mapping[str, str]
    shared: Mapping[str, str]
    """What every case of the group sets alike, so that rows need not repeat it."""
    rows: tuple[Row, ...]


def change(series: Series) -> Change | None:
    """Compare the newest revision with the one before it; None if there is only one."""
    names = list(dict.fromkeys(point.revision for point in series.points))
    return compare(series, names[-2], names[-1]) if len(names) > 1 else None


def speedup(series: Series, baseline: Series | None) -> float | None:
    """Say how many times better the latest value is than the baseline's; None if undefined."""
    if baseline is None or baseline is series:
        return None
    found = ratio(series.points[-1], baseline.points[-1])
    if found is None:
        return None
    return found.value if series.direction is Direction.HIGHER else 1 / found.value


def groups(series: Sequence[Series], verdicts: Mapping[str, Verdict]) -> list[Group]:
    """Sort series into groups, simple cases first, and hold each against its baseline."""
    members: dict[tuple[str, str, str], list[Series]] = {}
    for one in series:
        if one.points:
            key = (one.case.workload, one.case.preset, repr(sorted(one.comparability.items())))
            members.setdefault(key, []).append(one)
    return [
        Group(
            workload,
            preset,
            formats.hardware(own[0].comparability),
            own[0].comparability,
            _shared(own),
            _rows(own, verdicts),
        )
        for (workload, preset, _), own in sorted(members.items())
    ]


def _shared(series: Sequence[Series]) -> dict[str, str]:
    if len(series) < 2:
        return {}
    alike = set.intersection(*(set(one.case.axes.items()) for one in series))
    return dict(alike)


def _rows(series: Sequence[Series], verdicts: Mapping[str, Verdict]) -> tuple[Row, ...]:
    by_case = {one.case.key: one for one in series}
    ordered = sorted(series, key=lambda one: words.rank(one.case))
    return tuple(
        _row(one, by_case.get(catalog.baseline(one.case).key), verdicts) for one in ordered
    )


def _row(series: Series, baseline: Series | None, verdicts: Mapping[str, Verdict]) -> Row:
    points = series.points
    latest = points[-1]
    breaks = environment_changes(points)
    return Row(
        series=series,
        latest=latest,
        change=change(series),
        speedup=speedup(series, baseline),
        is_baseline=baseline is series,
        verdict=verdicts.get(latest.result_id),
        environment_changed=len(points) - 1 in breaks,
        spark=sparkline([point.value for point in points], breaks, _spark_label(series)),
    )


def _spark_label(series: Series) -> str:
    values = [point.value for point in series.points]
    low, high = (formats.quantity(end, series.unit) for end in (min(values), max(values)))
    return f"{words.metric(series.metric)}, last {len(values)} measurements: {low} to {high}"


def matching(groups_: Sequence[Group], text: str) -> list[Group]:
    """Keep the rows whose case, hardware, revision or verdict hold every word of ``text``."""
    wanted = text.lower().split()
    kept = []
    for group in groups_:
        rows = tuple(row for row in group.rows if all(w in _said(group, row) for w in wanted))
        if rows:
            kept.append(replace(group, rows=rows))
    return kept


def _said(group: Group, row: Row) -> str:
    verdict = row.verdict.sentence if row.verdict else ""
    bound = words.BOTTLENECKS[row.verdict.bottleneck] if row.verdict else ""
    parts = (row.series.case.key, group.hardware, row.latest.revision, row.latest.worker)
    return " ".join((*parts, verdict, bound)).lower()
