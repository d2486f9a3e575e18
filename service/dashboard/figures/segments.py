"""Levels and changes of a history as they are drawn over its points."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from textwrap import wrap
from urllib.parse import quote

from service.dashboard.figures import frame
from service.dashboard.figures.places import Places
from service.schemas.annotations import AnnotationView
from service.schemas.series import SeriesPoint
from service.wording import formats

MOST_LABELS = 30
"""More changes than this are marked without a label each, which nobody could read."""
WRAPPED = 60
"""Characters of a line of an annotation that a hover shows."""
ROW = 16
"""Height in pixels of a row of labels above a chart."""
MARGIN: frame.Figure = {"l": 8, "r": 12, "t": frame.TOOLS + 20 + ROW, "b": 8}
"""Leaves room for the labels of environments, and for those of changes above them."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level as it is drawn."""

    result_id: str
    """The first point of the new level."""
    at: datetime
    """Its place in the order of revisions, for when the point itself is not there."""
    effect: float
    """How much more the new level is, as a share of the old one."""
    improvement: bool
    finding: str = ""
    """The finding about it, if there is one and the label is to lead there."""
    chosen: bool = False
    """Whether the chart is about this change."""


@dataclass(frozen=True, slots=True)
class EnvironmentMark:
    """A changed environment as it is drawn, between two points."""

    before: SeriesPoint
    after: SeriesPoint
    label: str


@dataclass(frozen=True, slots=True)
class Analysed:
    """The analysis of a history, as far as a chart draws it."""

    steps: tuple[Step, ...] = ()
    """In the order of the history."""
    one_level: bool = False
    """Whether, without any step, all points are known to be at one level."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why results do not count, by their ids."""
    environments: tuple[EnvironmentMark, ...] = ()
    """Where the environment changed."""
    annotations: Sequence[AnnotationView] = ()
    """Annotations of people, the earliest first."""


def annotation_marks(
    annotations: Sequence[AnnotationView], points: Sequence[SeriesPoint], order: Sequence[str]
) -> tuple[list[frame.Figure], list[frame.Figure]]:
    """The lines of what people wrote, and their signs at the foot of a chart, which hold the text.

    Args:
        annotations: in their order; the last `MOST_LABELS` are drawn.
        points: of the chart, in the order of their revisions.
        order: the revisions along the axis; empty where it shows time.
    """
    first = max(len(annotations) - MOST_LABELS, 0)
    lines, signs = [], []
    for number, one in enumerate(annotations[first:], start=first + 1):
        x = _spot_of(one, points, order)
        text = "<br>".join(map(frame.literal, wrap(one.text, WRAPPED)))
        place = {"y": 0, "yanchor": "bottom", "xanchor": "left", "hovertext": text}
        lines.append(frame.upright(x, "var(--accent)", 1, dash="dash"))
        signs.append(frame.label(x, f"✎{number}", "var(--accent)", 12, **place))
    return lines, signs


def _spot_of(
    one: AnnotationView, points: Sequence[SeriesPoint], order: Sequence[str]
) -> str | float:
    """At its time or revision; else between the revisions around it."""
    if not order:
        return one.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    if one.revision in order:
        return order.index(one.revision)
    after = bisect_right(points, one.at, key=lambda point: point.revision_at)
    return order.index(points[after - 1].revision) + 0.5 if after else -0.5


def place_of(points: Sequence[SeriesPoint], step: Step) -> int:
    """Index of the first point of the new level; -1 if it comes before these points."""
    known = next((at for at, point in enumerate(points) if point.result_id == step.result_id), None)
    if known is not None:
        return known
    if points and step.at < points[0].revision_at:
        return -1
    return bisect_left(points, step.at, key=lambda point: point.revision_at)


def drawn(
    points: Sequence[SeriesPoint], analysed: Analysed, place: Places, factor: float
) -> tuple[list[frame.Figure], list[frame.Figure]]:
    """The lines of levels and changes, and the labels of changes."""
    if not points:
        return [], []
    placed = [(place_of(points, step), step) for step in analysed.steps]
    inside = {at: step for at, step in placed if 0 < at < len(points)}
    borders = {at: place.between(points[at - 1], points[at]) for at in sorted(inside)}
    shapes = _level_lines(points, borders, place, factor) if placed or analysed.one_level else []
    shapes += [_mark(x, inside[at]) for at, x in borders.items()]
    if len(inside) > MOST_LABELS:
        return shapes, []
    return shapes, [_label(x, inside[at]) for at, x in borders.items()]


def _level_lines(
    points: Sequence[SeriesPoint], borders: Mapping[int, str | float], place: Places, factor: float
) -> list[frame.Figure]:
    """A line for each stretch at the median of its points, which is where a reader sees it.

    What analysis calls a level is alike in machine, mode and drift, and may lie beside them.
    """
    spots = [place.spot(points[0]), *borders.values(), place.spot(points[-1])]
    lines = []
    for (begin, end), (left, right) in zip(
        pairwise([0, *borders, len(points)]), pairwise(spots), strict=True
    ):
        values = [point.value for point in points[begin:end] if point.counts]
        if values:
            lines.append(_level(left, right, median(values) * factor))
    return lines


def _level(left: str | float, right: str | float, value: float) -> frame.Figure:
    return {
        "type": "line",
        "xref": "x",
        "yref": "y",
        "x0": left,
        "x1": right,
        "y0": value,
        "y1": value,
        "line": {"color": "var(--level)", "width": 2},
    }


def _mark(x: str | float, step: Step) -> frame.Figure:
    line = frame.upright(x, _colour(step), 2.5 if step.chosen else 1.5)
    return line | {"layer": "between"}


def _label(x: str | float, step: Step) -> frame.Figure:
    text = f"{'▲' if step.improvement else '▼'}{formats.NBSP}{formats.size(step.effect)}"
    if step.finding:
        text = f'<a href="/findings/{quote(step.finding, safe="")}" target="_self">{text}</a>'
    shown = f"<b>{text}</b>" if step.chosen else text
    return frame.label(x, shown, _colour(step), 12, yshift=ROW)


def _colour(step: Step) -> str:
    return "var(--better)" if step.improvement else "var(--worse)"
