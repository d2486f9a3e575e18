"""A series over its revisions."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Literal

import numpy as np

from service import formats
from service.dashboard import words
from service.dashboard.figures.frame import CONFIG, Figure, axis, decimate, frame, value_axis
from service.results import Series, SeriesPoint

XAxis = Literal["order", "time"]
MOST_BARS = 150
"""Up to so many points each gets its own error bar; beyond that a band reads better."""
CALM_SPAN = 0.01
"""The value axis spans at least this share on either side, so that noise looks like noise."""


@dataclass(frozen=True, slots=True)
class View:
    """What the reader chose to see of a history; all of it stands in the URL."""

    x: XAxis = "order"
    start: str = ""
    """First revision shown, or first instant: what a zoom wrote."""
    end: str = ""
    low: float | None = None
    """Ends of the value axis in base units, if the reader zoomed into it."""
    high: float | None = None
    zero: bool = False
    """Whether the value axis begins at zero."""


def history(series: Series, view: View = View()) -> Figure:
    """Draw a series over its revisions, with intervals and marks where the environment changed."""
    points = series.points
    values = np.array([point.value for point in points], dtype=np.float64)
    factor, label = formats.scale(series.unit, float(np.median(values)) if len(values) else 0.0)
    kept = [points[index] for index in decimate(values)]
    place = _Places.of(points, view.x)
    marks, notes = _change_marks(points, place)
    title = f"{words.metric(series.metric)}, {label}"
    return {
        "data": [*_interval_band(kept, place, factor), _history_line(series, kept, place, factor)],
        "layout": frame(
            place.axis(view),
            value_axis(title, **_value_range(points, factor, view)),
            shapes=marks,
            annotations=notes,
            showlegend=False,
        ),
        "config": CONFIG,
        "state": {
            "x": view.x,
            "zero": view.zero,
            "names": place.full_names,
            "factor": factor,
        },
    }


def environment_changes(points: Sequence[SeriesPoint]) -> list[int]:
    """Give the index of each point whose environment is not that of the point before it."""
    return [
        index
        for index in range(1, len(points))
        if points[index].environment != points[index - 1].environment
    ]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where each point stands on the horizontal axis."""

    x: XAxis
    labels: dict[str, str]
    """The tick of each revision, in the order of the history."""

    @classmethod
    def of(cls, points: Iterable[SeriesPoint], x: XAxis) -> _Places:
        labels: dict[str, str] = {}
        taken: set[str] = set()
        for name in dict.fromkeys(point.revision for point in points):
            short = formats.revision(name)
            labels[name] = name if short in taken else short
            taken.add(labels[name])
        return cls(x, labels)

    @property
    def full_names(self) -> list[str]:
        return list(self.labels)

    def at(self, point: SeriesPoint) -> str:
        if self.x == "time":
            return point.revision_at.astimezone(UTC).isoformat()
        return self.labels[point.revision]

    def between(self, left: SeriesPoint, right: SeriesPoint) -> str | float:
        if self.x == "time":
            return (left.revision_at + (right.revision_at - left.revision_at) / 2).isoformat()
        order = self.full_names
        return (order.index(left.revision) + order.index(right.revision)) / 2

    def axis(self, view: View) -> Figure:
        zoom: dict[str, object] = {}
        if self.x == "time":
            if view.start and view.end:
                zoom = {"range": [view.start, view.end]}
            return axis("Date of the revision (UTC)", type="date", **zoom)
        ticks = list(self.labels.values())
        if span := self._span(view):
            zoom = {"range": span}
        return axis(
            "Revision",
            type="category",
            categoryorder="array",
            categoryarray=ticks,
            nticks=14,
            **zoom,
        )

    def _span(self, view: View) -> list[float]:
        order = self.full_names
        if view.start not in order or view.end not in order:
            return []
        first, last = sorted((order.index(view.start), order.index(view.end)))
        return [first - 0.5, last + 0.5]


def _value_range(points: Sequence[SeriesPoint], factor: float, view: View) -> Figure:
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


def _interval_band(kept: Sequence[SeriesPoint], place: _Places, factor: float) -> list[Figure]:
    if len(kept) <= MOST_BARS:
        return []
    known = [point for point in kept if point.low is not None and point.high is not None]
    x = [place.at(point) for point in known]
    lows = [(point.low or 0.0) * factor for point in known]
    highs = [(point.high or 0.0) * factor for point in known]
    edge: Figure = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    return [edge | {"y": lows}, edge | {"y": highs, "fill": "tonexty", "fillcolor": "var(--band)"}]


def _history_line(
    series: Series, kept: Sequence[SeriesPoint], place: _Places, factor: float
) -> Figure:
    drawn = _parted(kept)
    line: Figure = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": words.metric(series.metric),
        "x": [point and place.at(point) for point in drawn],
        "y": [point and point.value * factor for point in drawn],
        "customdata": [point and [point.result_id, _hover(series, point)] for point in drawn],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
        "line": {"color": "var(--c1)", "width": 1.5},
        "marker": {"color": "var(--c1)", "size": 7 if len(kept) <= MOST_BARS else 4},
    }
    if len(kept) <= MOST_BARS:
        line["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [point and _reach(point.high, point.value, factor) for point in drawn],
            "arrayminus": [point and _reach(point.low, point.value, factor) for point in drawn],
            "color": "var(--c1-soft)",
            "thickness": 1.5,
            "width": 3,
        }
    return line


def _parted(points: Sequence[SeriesPoint]) -> list[SeriesPoint | None]:
    """Put a gap between two measurements of one revision: a line up the same place says nothing."""
    parted: list[SeriesPoint | None] = []
    for before, point in zip((None, *points), points, strict=False):
        if before is not None and before.revision == point.revision:
            parted.append(None)
        parted.append(point)
    return parted


def _reach(end: float | None, value: float, factor: float) -> float:
    return 0.0 if end is None else abs(end - value) * factor


def _hover(series: Series, point: SeriesPoint) -> str:
    many = "process" if point.replicates == 1 else "processes"
    lines = (
        f"<b>{html.escape(point.revision)}</b>",
        f"<b>{formats.quantity(point.value, series.unit)}</b> "
        f"{formats.half_width(point.value, point.low, point.high, series.unit)}",
        formats.interval(point.value, point.low, point.high, series.unit),
        f"{point.replicates} {many} ({point.interval.replace('_', ' ')})",
        f"measured {formats.moment(point.measured_at)}",
        f"on {html.escape(point.worker)}, environment {point.environment[:8]}",
        "<i>click to open the run</i>",
    )
    return "<br>".join(lines)


def _change_marks(
    points: Sequence[SeriesPoint], place: _Places
) -> tuple[list[Figure], list[Figure]]:
    """Mark environment changes, unless they are so many that marks would say nothing."""
    changes = environment_changes(points)
    if len(changes) > 30:
        return [], []
    shapes: list[Figure] = []
    notes: list[Figure] = []
    for ordinal, index in enumerate(changes, start=1):
        x = place.between(points[index - 1], points[index])
        stroke = {"color": "var(--mark)", "width": 1.5, "dash": "dot"}
        spot: Figure = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
        shapes.append(spot | {"type": "line", "line": stroke})
        notes.append(
            {
                "xref": "x",
                "yref": "paper",
                "x": x,
                "y": 1,
                "yanchor": "bottom",
                "showarrow": False,
                "text": f"env {ordinal}",
                "font": {"color": "var(--mark)", "size": 11},
            }
        )
    return shapes, notes
