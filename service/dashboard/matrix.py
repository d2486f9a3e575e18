"""The matrix of cases: a heat map, what each setting does, the way to the fastest case. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks import contracts
from service.dashboard import labels
from service.dashboard.cases import CaseGroup, CaseRow
from service.dashboard.labels import Setting
from service.history import compare
from service.schemas.series import Ratio, SeriesPoint
from service.wording import formats

SHADES = 7
"""Steps of the heat map's colours."""
UNUSUAL = 0.01
"""A change against an older revision is coloured from a hundredth on, if its interval allows."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One case in the heat map."""

    row: CaseRow
    text: str
    shade: str
    """A class of the style sheet; empty for no colour."""
    explained: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One configuration in every workload; None where it was not measured."""

    settings: tuple[Setting, ...]
    cells: tuple[MatrixCell | None, ...]


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """Effect of one setting on throughput, over pairs of cases that differ in nothing else."""

    setting: Setting
    ratio: float
    """Geometric mean over the pairs."""
    low: float
    high: float
    """Interval of one pair; smallest and largest ratio of several."""
    pairs: int


@dataclass(frozen=True, slots=True)
class LadderStep:
    """A case on the way to the fastest one, with what it adds to the one before."""

    row: CaseRow
    added: tuple[Setting, ...]
    ratio: Ratio | None
    """Over the step before; None for the first."""
    start: float
    end: float
    """Begin and end of its bar, as shares of the largest throughput."""


def heat_map(
    groups: Sequence[CaseGroup], show: str, since: Mapping[str, SeriesPoint] | None
) -> list[MatrixRow]:
    """Put the cases of workloads side by side, plain configurations first.

    ``since`` is the point of each series at an older revision, for changes since it; None for
    changes from the level.
    """
    columns = [
        {_settings(group, row): _cell(row, group, show, since) for row in group.rows}
        for group in groups
    ]
    first = {key: cell.row.series.case for column in columns[::-1] for key, cell in column.items()}
    ordered = sorted(first, key=lambda key: (len(key), labels.rank(first[key])))
    return [
        MatrixRow(tuple(labels.settings(dict(key))), tuple(one.get(key) for one in columns))
        for key in ordered
    ]


def names(groups: Sequence[CaseGroup]) -> list[str]:
    """Name groups by workload, with preset and project where that is needed to tell them apart."""
    full = [(one.workload, one.preset, one.project) for one in groups]
    starts = Counter(one[:length] for one in full for length in (1, 2))
    lengths = [next((n for n in (1, 2) if starts[one[:n]] == 1), 3) for one in full]
    return [" ".join(filter(None, one[:n])) for one, n in zip(full, lengths, strict=True)]


def usual(group: CaseGroup) -> dict[str, str]:
    """The commonest value of each axis that every case of a group sets: its rows leave it out."""
    every = [row.series.case.axes for row in group.rows]
    named = set.intersection(*(set(axes) for axes in every))
    return {axis: Counter(axes[axis] for axes in every).most_common(1)[0][0] for axis in named}


def _settings(group: CaseGroup, row: CaseRow) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(row.series.case.axes.items() - usual(group).items()))


def _cell(
    row: CaseRow, group: CaseGroup, show: str, since: Mapping[str, SeriesPoint] | None
) -> MatrixCell:
    value, unit = row.latest.value, row.series.unit
    said = formats.quantity(value, unit)
    interval = formats.interval(value, row.latest.low, row.latest.high, unit)
    explained = f"{row.series.case.key}: {said}, 95 % {interval}, at {row.latest.revision}"
    if show == "change":
        return _changed(row, since, explained)
    if show == "verdict":
        bound = labels.BOTTLENECKS[row.verdict.bottleneck] if row.verdict else "not known"
        return MatrixCell(row, bound, f"bound-{row.verdict.bottleneck}" if row.verdict else "",
                          row.verdict.sentence if row.verdict else explained)  # fmt: skip
    if show == "speedup":
        ratio = row.speedup
        plain = formats.times(1.0) if row.is_baseline else formats.DASH
        said = formats.times(ratio.value) if ratio else plain
    return MatrixCell(row, said, _heat(row, group), explained)


def _heat(row: CaseRow, group: CaseGroup) -> str:
    """Colour a value by its place between the smallest and the largest of its workload."""
    values = [math.log(one.latest.value) for one in group.rows if one.latest.value > 0]
    if row.latest.value <= 0 or max(values) - min(values) < UNUSUAL:
        return ""
    share = (math.log(row.latest.value) - min(values)) / (max(values) - min(values))
    return f"heat-{round(share * SHADES)}"


def _changed(row: CaseRow, since: Mapping[str, SeriesPoint] | None, explained: str) -> MatrixCell:
    if since is None:
        change = row.difference.change if row.difference else None
        sure = row.difference is not None and row.difference.is_unusual
    else:
        before = since.get(row.series.id)
        explained += "" if before else "; nothing that counts was measured at the older revision"
        ratio = compare.ratio(row.latest, before) if before else None
        lower = row.series.direction is contracts.Direction.LOWER
        change = None if ratio is None else (1 - ratio.value if lower else ratio.value - 1)
        sure = bool(ratio and ratio.low and ratio.high and not ratio.low <= 1 <= ratio.high)
    if change is None:
        return MatrixCell(row, formats.DASH, "", explained)
    coloured = sure and abs(change) >= UNUSUAL / 2
    tone = ("better" if change > 0 else "worse") if coloured else ""
    return MatrixCell(row, formats.change(change), tone and f"is-{tone}", explained)


def effects(group: CaseGroup) -> list[SettingEffect]:
    """Say what each setting does, the largest effects first; those without a pair are left out."""
    by_axes = {frozenset(row.series.case.axes.items()): row for row in group.rows}
    ratios: dict[tuple[str, str], list[Ratio]] = {}
    for (axes, row), setting in (
        (known, one) for known in by_axes.items() for one in sorted(known[0])
    ):
        without = by_axes.get(axes - {setting})
        if without is not None and (ratio := compare.ratio(row.latest, without.latest)):
            ratios.setdefault(setting, []).append(ratio)
    found = [_effect(axis, value, known) for (axis, value), known in ratios.items()]
    return sorted(found, key=lambda one: -abs(math.log(one.ratio)))


def _effect(axis: str, value: str, known: Sequence[Ratio]) -> SettingEffect:
    (setting,) = labels.settings({axis: value})
    middle = math.exp(fmean(math.log(one.value) for one in known))
    low, high = min(one.value for one in known), max(one.value for one in known)
    if len(known) == 1:
        low, high = known[0].low or low, known[0].high or high
    return SettingEffect(setting, middle, low, high, len(known))


def ladder(group: CaseGroup) -> list[LadderStep]:
    """The way from a plain case to the fastest that measured cases lead to, in the smallest steps.

    Each case adds settings to the one before. Empty if no case adds to another.
    """
    ways: list[list[CaseRow]] = []
    for row in sorted(group.rows, key=lambda row: len(_axes(row))):
        before = [way for way in ways if _axes(way[-1]) < _axes(row)]
        ways.append([*max(before, key=len, default=[]), row])
    in_steps = (way for way in ways if len(way) > 1)
    steps = max(in_steps, key=lambda way: way[-1].latest.value, default=[])
    most = max((row.latest.value for row in steps), default=0.0) or 1.0
    return [_step(row, before, most) for row, before in zip(steps, [None, *steps], strict=False)]


def _axes(row: CaseRow) -> frozenset[tuple[str, str]]:
    return frozenset(row.series.case.axes.items())


def _step(row: CaseRow, before: CaseRow | None, most: float) -> LadderStep:
    added = dict(_axes(row) - (_axes(before) if before else frozenset()))
    start = before.latest.value / most if before else 0.0
    ratio = compare.ratio(row.latest, before.latest) if before else None
    return LadderStep(row, tuple(labels.settings(added)), ratio, start, row.latest.value / most)


def front(places: Sequence[tuple[float, float]]) -> list[int]:
    """Indexes of the places that no other beats: more of the first costs more of the second."""
    return [
        at
        for at, (gain, cost) in enumerate(places)
        if not any(
            more >= gain and less <= cost and (more, less) != (gain, cost) for more, less in places
        )
    ]
