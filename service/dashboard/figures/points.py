"""A series over its revisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.catalog.metrics import metric
from service.dashboard.figures import frame, segments
from service.dashboard.figures.places import Places, View
from service.schemas.series import Series, SeriesPoint
from service.wording import formats

MOST_BARS = 150
"""Up to so many points each gets its own error bar; beyond that a band reads better."""
CALM_SPAN = 0.01
"""The value axis spans at least this share on either side, so that noise looks like noise."""
MOST_REASON = 120
"""Characters of a reason that a hover shows; the table has all of it."""
LONGEST_LABEL = 24
"""Characters of a mark's label, which may name a worker."""
LABEL_SHARE = 0.12
"""Of the width of a chart, that a label takes on a laptop's screen."""
BEFORE = 30
"""Points shown before a change: what its old level was, and how steady."""
ALL, UNANALYSED = View(), segments.Analysed()


def history(
    series: Series, view: View = ALL, analysed: segments.Analysed = UNANALYSED
) -> frame.Figure:
    """Draw a series over its revisions: intervals, levels, and marks where something changed.

    What changed is its level, as analysis says, or its environment. Points that are not analysed
    are hollow.
    """
    points = series.points
    values = np.array([point.value for point in points], dtype=np.float64)
    factor, label = formats.scale(series.unit, float(np.median(values)) if len(values) else 0.0)
    kept = [points[index] for index in frame.decimate(values)]
    place = Places.of(points, view.x)
    inside = [point for point in kept if point.counts]
    excluded = [point for point in kept if point.excluded]
    disturbed = [point for point in kept if point.disturbed and not point.excluded]
    marks, notes = _environment_marks(analysed.environments, points, place)
    order = place.full_names if view.x == "order" else ()
    lines, signs = segments.annotation_marks(analysed.annotations, points, order)
    levels, labels = segments.drawn(points, analysed, place, factor)
    title = f"{metric(series.metric).title}, {frame.literal(label)}"
    return {
        "data": [
            *_interval_band(inside, place, factor),
            _history_line(series, inside, place, factor),
            *_hollow("excluded", series, excluded, place, factor, analysed),
            *_hollow("disturbed", series, disturbed, place, factor, analysed),
        ],
        "layout": frame.frame(
            place.axis(view),
            frame.value_axis(title, **_value_range(points, factor, view)),
            shapes=[*marks, *lines, *levels],
            annotations=[*notes, *signs, *labels],
            showlegend=False,
        )
        | ({"margin": segments.MARGIN} if labels else {}),
        "config": frame.CONFIG,
        "state": {"x": view.x, "zero": view.zero, "names": place.full_names, "factor": factor},
    }


def before_after(series: Series, analysed: segments.Analysed) -> frame.Figure:
    """Draw the chosen step of ``analysed`` with the points before it, up to the newest."""
    chosen = next(step for step in analysed.steps if step.chosen)
    begin = max(0, segments.place_of(series.points, chosen) - BEFORE)
    return history(replace(series, points=series.points[begin:]), analysed=analysed)


def _value_range(points: Sequence[SeriesPoint], factor: float, view: View) -> frame.Figure:
    if not points:
        return {}
    low = min(point.value if point.low is None else point.low for point in points) * factor
    high = max(point.value if point.high is None else point.high for point in points) * factor
    if view.low is not None and view.high is not None:
        return {"range": [view.low * factor, view.high * factor]}
    if view.zero:
        return {"range": [min(0.0, low), max(high, 0.0) * 1.06 or 1.0]}
    middle = (low + high) / 2
    calm = abs(middle) * CALM_SPAN
    return {"autorangeoptions": {"include": [middle - calm, middle + calm]}}


def _interval_band(kept: Sequence[SeriesPoint], place: Places, factor: float) -> list[frame.Figure]:
    if len(kept) <= MOST_BARS:
        return []
    known = [point for point in kept if point.low is not None and point.high is not None]
    x = [place.at(point) for point in known]
    lows = [(point.low or 0.0) * factor for point in known]
    highs = [(point.high or 0.0) * factor for point in known]
    edge: frame.Figure = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    return [edge | {"y": lows}, edge | {"y": highs, "fill": "tonexty", "fillcolor": "var(--band)"}]


def _history_line(
    series: Series, kept: Sequence[SeriesPoint], place: Places, factor: float
) -> frame.Figure:
    gapped = parted(kept)
    line: frame.Figure = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": metric(series.metric).title,
        "x": [point and place.at(point) for point in gapped],
        "y": [point and point.value * factor for point in gapped],
        "customdata": [point and [point.result_id, _hover(series, point)] for point in gapped],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
        "line": {"color": "var(--c1)", "width": 1.5},
        "marker": {"color": "var(--c1)", "size": 7 if len(kept) <= MOST_BARS else 4},
    }
    if len(kept) <= MOST_BARS:
        line["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [point and _reach(point.high, point.value, factor) for point in gapped],
            "arrayminus": [point and _reach(point.low, point.value, factor) for point in gapped],
            "color": "var(--c1-soft)",
            "thickness": 1.5,
            "width": 3,
        }
    return line


def _hollow(
    name: str,
    series: Series,
    points: Sequence[SeriesPoint],
    place: Places,
    factor: float,
    analysed: segments.Analysed,
) -> list[frame.Figure]:
    """Points that are not analysed: in their place, and apart from the line."""
    if not points:
        return []
    hovers = [_hover(series, point, analysed.reasons.get(point.result_id, "")) for point in points]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [place.at(point) for point in points],
            "y": [point.value * factor for point in points],
            "customdata": [[p.result_id, said] for p, said in zip(points, hovers, strict=True)],
            "hovertemplate": "%{customdata[1]}<extra></extra>",
            "marker": {"color": "var(--muted)", "size": 9, "symbol": "circle-open"},
        }
    ]


def parted(points: Sequence[SeriesPoint]) -> list[SeriesPoint | None]:
    """Put a gap between two measurements of one revision: a line up the same place says nothing."""
    parted: list[SeriesPoint | None] = []
    for before, point in zip((None, *points), points, strict=False):
        if before is not None and before.revision == point.revision:
            parted.append(None)
        parted.append(point)
    return parted


def _reach(end: float | None, value: float, factor: float) -> float:
    return 0.0 if end is None else abs(end - value) * factor


def _hover(series: Series, point: SeriesPoint, reason: str = "") -> str:
    many = "process" if point.replicates == 1 else "processes"
    lines = (
        f"<b>{frame.literal(point.revision)}</b>",
        f"<b>{frame.literal(formats.quantity(point.value, series.unit))}</b> "
        f"{formats.half_width(point.value, point.low, point.high, series.unit)}",
        frame.literal(formats.interval(point.value, point.low, point.high, series.unit)),
        f"{point.replicates} {many} ({point.interval.replace('_', ' ')})",
        f"measured {formats.moment(point.measured_at)}",
        f"on {frame.literal(point.worker)}, environment {point.environment[:8]}",
        *([f"<b>excluded</b>: {frame.literal(shortened(reason))}"] if point.excluded else []),
        *([f"<b>not analysed</b>: disturbed by {point.disturbed}"] if point.disturbed else []),
        "<i>click to open the run</i>",
    )
    return "<br>".join(lines)


def shortened(said: str, most: int = MOST_REASON) -> str:
    """Cut a text off that is longer than a chart has room for."""
    return said if len(said) <= most else said[:most] + "…"


def _environment_marks(
    marks: Sequence[segments.EnvironmentMark], points: Sequence[SeriesPoint], place: Places
) -> tuple[list[frame.Figure], list[frame.Figure]]:
    """Mark environment changes, unless they are so many that marks would say nothing.

    A label that would lie over the one before it only counts there: ``env 3, 2 more``.
    """
    shown = [
        mark for mark in marks if {mark.before.revision, mark.after.revision} <= place.labels.keys()
    ]
    if len(shown) > segments.MOST_LABELS:
        return [], []
    xs = [place.between(mark.before, mark.after) for mark in shown]
    groups: list[list[int]] = []
    begun = -1.0
    for at, mark in enumerate(shown):
        share = place.share(mark.after, points[0], points[-1])
        if groups and share - begun < LABEL_SHARE:
            groups[-1].append(at)
        else:
            groups.append([at])
            begun = share
    notes = [
        frame.label(xs[at], _label_of(shown[at], len(more)), "var(--mark)", 11)
        for at, *more in groups
    ]
    return [frame.upright(x, "var(--mark)", 1.5, dash="dot") for x in xs], notes


def _label_of(mark: segments.EnvironmentMark, more: int) -> str:
    text = shortened(mark.label, LONGEST_LABEL) + (f", {more} more" if more else "")
    return frame.literal(text)
