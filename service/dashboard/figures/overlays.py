"""Many series over one time axis: over each other, or each in a panel of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Literal

import numpy as np

from benchmarks.catalog.metrics import metric
from service.dashboard.figures import frame
from service.dashboard.figures.places import XAxis
from service.dashboard.figures.points import parted, shortened
from service.dashboard.figures.segments import Step, annotation_marks
from service.schemas.annotations import AnnotationView
from service.schemas.series import Series, SeriesPoint
from service.wording import formats

Baseline = Literal["", "first", "revision", "level"]
AGAINST = {
    "first": "its first point",
    "revision": "that revision",
    "level": "its level now",
}
"""What values may be shown as a share of."""
COLOURS, DASHES = 6, ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up")
MOST_BANDS = 4
"""Over each other, the intervals of more series would hide the points."""
MOST_MARKERS = 150
"""Points of a series up to which each has a marker."""
PANEL, GAP = 190, 46
"""Height of a panel and of what lies between two, in pixels."""
MOST_TICKS = 8
MOST_HEADING = 44
"""Characters of a series' name over its panel, as a phone has room for."""
MOST_TITLE = 60
"""Characters of a commit's title that a hover shows."""
Place = Callable[[SeriesPoint], str | int]
"""Gives where a point lies on the axis: a time, or the number of its revision."""


@dataclass(frozen=True, slots=True)
class Level:
    """A stretch of a history between two changes."""

    first: SeriesPoint
    last: SeriesPoint
    value: float
    """Median of all points in it."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A series as it is drawn among others."""

    number: int
    """Among those that are looked at: its colour, dash and symbol."""
    series: Series
    """With the points that are drawn."""
    levels: tuple[Level, ...] = ()
    steps: tuple[Step, ...] = ()
    """Where its level changes; the first point of each new level is drawn."""
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def style(self) -> tuple[str, str, str]:
        """Colour, dash and symbol: neighbours differ in colour, and no two in all three."""
        turn = self.number // COLOURS % len(DASHES)
        return f"var(--c{self.number % COLOURS + 1})", DASHES[turn], SYMBOLS[turn]


@dataclass(frozen=True, slots=True)
class Scene:
    """The choices for a chart of several series, and what all of them share."""

    x: XAxis = "time"
    panels: bool = False
    columns: int = 1
    """Panels beside each other."""
    against: Baseline = ""
    base: str = ""
    """The revision that values are shown against."""
    order: Sequence[str] = ()
    """Revisions in their order, if that is what the horizontal axis shows."""
    marks: Sequence[tuple[SeriesPoint, SeriesPoint, str]] = ()
    """Between which points an environment changed for all, and what changed."""
    annotations: Sequence[AnnotationView] = ()
    """Annotations of people."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Of the series, by id."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Author and title of revisions."""


def baseline_of(line: Drawn, scene: Scene) -> float | None:
    """Return what the values of a series are divided by; None if it has no such thing."""
    counting = [point for point in line.series.points if point.counts]
    match scene.against:
        case "first":
            values = [point.value for point in counting[:1]]
        case "revision":
            values = [point.value for point in counting if point.revision == scene.base]
        case "level":
            values = [line.levels[-1].value] if line.levels else []
        case _:
            return 1.0
    value = float(np.median(values)) if values else 0.0
    return value if value > 0 else None


def explored(lines: Sequence[Drawn], scene: Scene, name: str = "") -> frame.Figure:
    """Draw series with intervals, levels, changes, and the environments that changed for all.

    A figure of another ``name`` begins without the zoom of the one before it.
    """
    bases = {line.series.id: baseline_of(line, scene) for line in lines}
    shown = [line for line in lines if bases[line.series.id]]
    place = _placing(scene)
    data: list[frame.Figure] = []
    layout = frame.frame(_x_axis(scene), {}, showlegend=False, uirevision=name)
    groups = [[line] for line in shown] if scene.panels else [shown]
    for number, group in enumerate(groups):
        factor, title = _scale(group, scene)
        factors = {one.series.id: factor / (bases[one.series.id] or 1.0) for one in group}
        axes = _axes(number) if scene.panels else {}
        data += [trace | axes for trace in _traces(group, factors, scene, place)]
        layout["yaxis" + _suffix(number)] = frame.value_axis(title, fixedrange=True)
    layout |= _marks(scene, place, lines)
    if scene.panels:
        layout = _in_panels(layout, shown, scene)
    return {"data": data, "layout": layout, "config": frame.CONFIG}


def _suffix(number: int) -> str:
    return str(number + 1) if number else ""


def _axes(number: int) -> frame.Figure:
    return {"xaxis": "x" + _suffix(number), "yaxis": "y" + _suffix(number)}


def _scale(lines: Sequence[Drawn], scene: Scene) -> tuple[float, str]:
    """The factor for values, in their unit or in percent, and the title of the axis."""
    if scene.against:
        return 100.0, "%" if scene.panels else f"% of {AGAINST[scene.against]}"
    if not lines:
        return 1.0, ""
    series = lines[0].series
    sizes = [float(np.median([p.value for p in line.series.points])) for line in lines]
    factor, label = formats.scale(series.unit, max(sizes, key=abs))
    said = frame.literal(label)
    same = len({line.series.metric for line in lines}) == 1 and not scene.panels
    return factor, f"{metric(series.metric).title}, {said}" if same else said


def _placing(scene: Scene) -> Place:
    if scene.x == "order":
        ranks = {name: rank for rank, name in enumerate(scene.order)}
        return lambda point: ranks[point.revision]
    return _date


def _x_axis(scene: Scene) -> frame.Figure:
    if scene.x == "time":
        return frame.axis("" if scene.panels else "Date of the revision (UTC)", type="date")
    ticks = _ticks(scene)
    return frame.axis(
        "" if scene.panels else "Revision",
        tickvals=ticks,
        ticktext=[frame.literal(formats.revision(scene.order[tick])) for tick in ticks],
    )


def _ticks(scene: Scene) -> list[int]:
    """Places of the revisions that the axis names."""
    count = len(scene.order)
    most = MOST_TICKS if not scene.panels else 3
    return sorted({round(at) for at in np.linspace(0, count - 1, min(most, count))})


def _over_ticks(scene: Scene, points: Iterable[SeriesPoint]) -> list[frame.Figure]:
    """Empty labels over the names of revisions: plotly's own ticks cannot be hovered."""
    by_name = {point.revision: point for point in points}
    found = [(tick, by_name.get(scene.order[tick])) for tick in _ticks(scene)]
    box = {"y": 0, "yanchor": "top", "yshift": -4, "width": 44, "height": 18}
    return [
        frame.label(tick, formats.NBSP, "var(--muted)", 12, **box, hovertext=_dated(point, scene))
        for tick, point in found
        if point
    ]


def _dated(point: SeriesPoint, scene: Scene) -> str:
    """Name, date, message and author of a point's revision, on two lines."""
    said = f"{frame.literal(formats.revision(point.revision))} · {point.revision_at:%Y-%m-%d}"
    title = frame.literal(shortened(scene.titles.get(point.revision, ""), MOST_TITLE))
    return "<br>".join(filter(None, (said, title)))


def _traces(
    lines: Sequence[Drawn], factors: Mapping[str, float], scene: Scene, place: Place
) -> list[frame.Figure]:
    few = len(lines) <= MOST_BANDS
    traces = []
    for line in lines:
        factor = factors[line.series.id]
        if few:
            traces += _band(line, factor, place)
        traces.append(_line(line, factor, scene, place))
        traces += _level(line, factor, place, 3.0 if few else 2.0)
    return traces + _flagged(lines, factors, scene, place) + _changes(lines, factors, scene, place)


def _band(line: Drawn, factor: float, place: Place) -> list[frame.Figure]:
    known = [
        point
        for point in line.series.points
        if point.counts and point.low is not None and point.high is not None
    ]
    edge = {
        "type": "scatter",
        "mode": "lines",
        "x": [place(point) for point in known],
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    colour = line.style[0].removesuffix(")") + "-band)"
    lows = [(point.low or 0.0) * factor for point in known]
    highs = [(point.high or 0.0) * factor for point in known]
    return [edge | {"y": lows}, edge | {"y": highs, "fill": "tonexty", "fillcolor": colour}]


def _line(line: Drawn, factor: float, scene: Scene, place: Place) -> frame.Figure:
    colour, dash, symbol = line.style
    points = [point for point in line.series.points if point.counts]
    few = len(points) <= MOST_MARKERS
    return {
        "type": "scatter",
        "mode": "lines+markers" if few else "lines",
        "name": frame.literal(scene.names.get(line.series.id, line.series.id)),
        "meta": line.series.id,
        **_placed(parted(points), line, factor, scene, place),
        "line": {"color": colour, "width": 1.25, "dash": dash},
        "marker": {"color": colour, "size": 5, "symbol": symbol},
    }


def _level(line: Drawn, factor: float, place: Place, width: float) -> list[frame.Figure]:
    """The levels of a series as one trace, with a gap between two."""
    x = [at for one in line.levels for at in (place(one.first), place(one.last), None)]
    y = [at for one in line.levels for at in (one.value * factor, one.value * factor, None)]
    if not x:
        return []
    look = {"color": line.style[0], "width": width}
    trace: frame.Figure = {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": look}
    return [trace | {"hoverinfo": "skip", "meta": line.series.id}]


def _flagged(
    lines: Sequence[Drawn], factors: Mapping[str, float], scene: Scene, place: Place
) -> list[frame.Figure]:
    """Points that are not analysed: hollow, in their place."""
    traces = []
    for line in lines:
        points = [point for point in line.series.points if not point.counts]
        if points:
            placed = _placed(points, line, factors[line.series.id], scene, place)
            look = {"color": line.style[0], "size": 8, "symbol": "circle-open"}
            traces.append({"type": "scatter", "mode": "markers", **placed, "marker": look})
    return traces


def _changes(
    lines: Sequence[Drawn], factors: Mapping[str, float], scene: Scene, place: Place
) -> list[frame.Figure]:
    """A triangle at the first point of each new level; its hover says by how much."""
    spots = []
    for line in lines:
        by_result = {point.result_id: point for point in line.series.points}
        for step in line.steps:
            point = by_result[step.result_id]
            spots.append((point, step, point.value * factors[line.series.id], line))
    if not spots:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [place(point) for point, *_ in spots],
            "y": [y for _, _, y, _ in spots],
            "customdata": [_custom(line, point, scene) for point, _, _, line in spots],
            "text": [_said_of(step) for _, step, *_ in spots],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {
                "size": 13,
                "symbol": [
                    "triangle-up" if s.effect > 0 else "triangle-down" for _, s, *_ in spots
                ],
                "color": [f"var(--{'better' if s.improvement else 'worse'})" for _, s, *_ in spots],
                "line": {"color": "var(--surface)", "width": 1.5},
            },
        }
    ]


def _said_of(step: Step) -> str:
    tone = "better" if step.improvement else "worse"
    finding = "; a finding is about it" if step.finding else ""
    return f"The level changes by <b>{formats.change(step.effect)}</b>, {tone}{finding}"


def _custom(line: Drawn, point: SeriesPoint, scene: Scene) -> list[str]:
    """The name of a point in an address, and where the axis does not tell it, its date."""
    name = f"{line.series.id}.{point.result_id}"
    return [name] if scene.x == "time" else [name, _date(point)]


def _date(point: SeriesPoint) -> str:
    return point.revision_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _placed(
    points: Sequence[SeriesPoint | None], line: Drawn, factor: float, scene: Scene, place: Place
) -> frame.Figure:
    """Where points lie and what is said of them; a gap where there is None."""
    return {
        "x": [point and place(point) for point in points],
        "y": [point and point.value * factor for point in points],
        "customdata": [point and _custom(line, point, scene) for point in points],
        "text": [point and _hover(point, line, scene) for point in points],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _hover(point: SeriesPoint, line: Drawn, scene: Scene) -> str:
    unit = line.series.unit
    half = formats.half_width(point.value, point.low, point.high, unit)
    reason = line.reasons.get(point.result_id, "")
    said = (
        frame.literal(scene.names.get(line.series.id, "")),
        f"<b>{frame.literal(formats.quantity(point.value, unit))}</b> {half}",
        _dated(point, scene),
        f"on {frame.literal(point.worker)}" if point.worker else "",
        f"<b>not analysed</b>: {frame.literal(shortened(reason, MOST_TITLE))}"
        if not point.counts
        else "",
    )
    return "<br>".join(filter(None, said))


def _marks(scene: Scene, place: Place, drawn: Sequence[Drawn]) -> frame.Figure:
    """Upright lines where an environment changed for all, or somebody wrote something."""
    shapes, notes = [], []
    for _, after, said in scene.marks:
        shapes.append(frame.upright(place(after), "var(--mark)", 1.5, dash="dot"))
        notes.append(frame.label(place(after), frame.literal(said), "var(--mark)", 11))
    points = [point for one in drawn for point in one.series.points]
    points.sort(key=lambda point: point.revision_at)
    lines, signs = annotation_marks(scene.annotations, points, scene.order)
    shapes += lines
    notes += signs + _over_ticks(scene, points)
    return {"shapes": shapes, "annotations": [] if scene.panels else notes}


def _in_panels(layout: frame.Figure, lines: Sequence[Drawn], scene: Scene) -> frame.Figure:
    """Give each series its place in a grid; all share one horizontal axis."""
    rows = -(-len(lines) // scene.columns)
    height = rows * (PANEL + GAP)
    x_axis, headings, shapes = layout["xaxis"], [], []
    for number, line in enumerate(lines):
        row, column = divmod(number, scene.columns)
        wide = 1 / scene.columns
        left, right = column * wide + (0.06 if scene.columns > 1 else 0), (column + 1) * wide
        top = 1 - row * (PANEL + GAP) / height - 22 / height
        suffix = _suffix(number)
        domain = {"domain": [left, right], "anchor": "y" + suffix, "automargin": False}
        layout["xaxis" + suffix] = x_axis | domain | ({"matches": "x"} if number else {})  # type: ignore[operator]
        bottom = max(top - PANEL / height + 22 / height, 0.0)
        layout["yaxis" + suffix] |= {  # type: ignore[operator]
            "domain": [bottom, top],
            "anchor": "x" + suffix,
            "automargin": scene.columns == 1,
        }
        name = frame.literal(shortened(scene.names.get(line.series.id, ""), MOST_HEADING))
        bold = {"color": "var(--text)", "size": 12}
        headings.append(frame.heading(name, top) | {"x": left, "font": bold})
        here = {"xref": "x" + suffix, "yref": f"y{suffix} domain"}
        shapes += [shape | here for shape in layout["shapes"]]  # type: ignore[attr-defined]
    return layout | {"annotations": headings, "shapes": shapes, "height": height + 60}
