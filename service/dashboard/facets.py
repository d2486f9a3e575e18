"""The choice of series by their facets, and what each facet may be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.catalog import catalog
from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Case
from service.dashboard import labels
from service.dashboard.query_params import ExploreAddress
from service.schemas.series import SeriesName
from service.wording import formats

METRIC = "throughput"
"""The metric if none is chosen."""
MOST_SHOWN = 24
"""Series that are shown at once: six colours, each in four dashes."""
NOTHING_MORE = "no other setting"
"""The name of a series that has only what all of them have in common."""
HERE = "measured here"
"""The source of what no other tool measured."""


def matching(every: Iterable[SeriesName], at: ExploreAddress) -> list[SeriesName]:
    """Choose the series that have a chosen value of each facet, and those chosen by id.

    Settings of one axis are alternatives. Those chosen by id come first.
    """
    axes: dict[str, set[str]] = {}
    for said in at.setting:
        axis, _, value = said.partition("=")
        axes.setdefault(axis, set()).add(value)
    by_facet = any((at.workload, axes, at.metric, at.hardware, at.source))
    chosen = [
        one
        for one in every
        if one.id in at.series
        or (
            by_facet
            and one.metric in (at.metric or (METRIC,))
            and all(_has(one, axis, values) for axis, values in axes.items())
            and (not at.workload or one.case.workload in at.workload)
            and (not at.hardware or formats.hardware(one.comparability) in at.hardware)
            and (not at.source or (one.source or HERE) in at.source)
        )
    ]
    return sorted(chosen, key=lambda one: (one.id not in at.series, *order(one)))


def order(series: SeriesName) -> tuple[object, ...]:
    """Order series by workload, from plain cases to elaborate ones."""
    case = series.case
    place = (case.workload, labels.rank(case)) if isinstance(case, Case) else (case.workload, ())
    return *place, series.metric, formats.hardware(series.comparability), series.id


def _has(series: SeriesName, axis: str, values: set[str]) -> bool:
    return series.case.axes.get(axis, _default(axis)) in values


def _default(axis: str) -> str:
    known = catalog.axes().get(axis)
    return known.default if known else ""


def options(every: Sequence[SeriesName], at: ExploreAddress) -> dict[str, list[str]]:
    """List what each facet may be among these series, without what is chosen already."""
    settings = {(axis, value) for one in every for axis, value in one.case.axes.items()}
    settings |= {(axis, _default(axis)) for axis, _ in settings if _default(axis)}
    found = {
        "workload": {one.case.workload for one in every},
        "setting": {f"{axis}={value}" for axis, value in settings},
        "hardware": {formats.hardware(one.comparability) for one in every},
        "source": {one.source or HERE for one in every},
    }
    return {facet: sorted(values - set(getattr(at, facet))) for facet, values in found.items()}


def shared_and_own(series: Sequence[SeriesName]) -> tuple[list[str], dict[str, str]]:
    """Name what all of these series have in common, and each by what it has beside that."""
    parts = {one.id: _parts(one) for one in series}
    every = list(parts.values())
    shared = [part for part in every[0] if all(part in other for other in every)] if every else []
    own = {
        series_id: " · ".join(part for part in said if part not in shared) or NOTHING_MORE
        for series_id, said in parts.items()
    }
    return shared if len(every) > 1 else [], own


def _parts(series: SeriesName) -> list[str]:
    """The words that tell a series apart, the widest first."""
    settings = [f"{one.axis} {one.value}" for one in labels.case_settings(series.case)]
    return [
        series.case.workload,
        *([series.case.preset] if series.case.preset else []),
        *(settings or ["all defaults"]),
        metric(series.metric).title,
        formats.hardware(series.comparability),
        *([series.source] if series.source else []),
        *([f"project {series.project}"] if series.project else []),
    ]
