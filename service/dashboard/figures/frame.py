"""The parts that all figures share: frame, safe JSON, and the number of points drawn.

Colours are the names of the style sheet's variables, ``var(--c1)``; the page replaces them with
what the reader's light or dark theme says, so that one figure serves both.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import orjson
from markupsafe import Markup
from numpy.typing import NDArray

from benchmarks.contracts import Result, Trace
from benchmarks.contracts.bounds import TRACE_VALUES, traces

Figure = dict[str, object]
Floats = NDArray[np.float64]

MOST_POINTS = 2_000
"""What a chart draws at most: twice the pixels of a wide screen."""
LEAST_OF_A_LINE = 50
"""What each of a chart's lines has all the same, however many there are."""
FONT = "system-ui, sans-serif"
TOOLS = 28
"""Height in pixels that plotly's toolbar takes at the top: nothing else is drawn there."""
CONFIG: Figure = {
    "displaylogo": False,
    "plotlyServerURL": "",
    "responsive": True,
    "displayModeBar": "hover",
    "modeBarButtonsToRemove": [
        "sendChartToCloud",
        "lasso2d",
        "select2d",
        "zoomIn2d",
        "zoomOut2d",
        "autoScale2d",
    ],
}


def embed(figure: Figure) -> Markup:
    """Write a figure as JSON that is safe inside ``<script type="application/json">``."""
    text = orjson.dumps(figure, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - no markup is left in it


def literal(text: str) -> str:
    """Write a stranger's text so that plotly.js, which reads some tags, shows it as it is."""
    return html.escape(text, quote=False)  # it knows no &quot;


def drawable(result: Result) -> bool:
    """Return True if a result's traces are small enough to be unpacked for a page.

    Intake refuses what is larger; what was stored before it did may be larger.
    """
    return sum(one.n for one in traces(result)) <= TRACE_VALUES


def values_of(trace: Trace) -> Floats:
    """Unpack a trace; empty if it is damaged or a value is not finite, which costs its curve."""
    try:
        values = np.frombuffer(trace.unpacked(), dtype=np.float32).astype(np.float64)
    except ValueError:
        return np.empty(0)
    return values if np.isfinite(values).all() else np.empty(0)


def points_of_each(lines: int) -> int:
    """Return the most points that each of so many ``lines`` of one chart may have."""
    return max(MOST_POINTS // max(lines, 1), LEAST_OF_A_LINE)


def decimate(
    values: Floats, limit: int = MOST_POINTS, keep: Sequence[int] | NDArray[np.intp] = ()
) -> NDArray[np.intp]:
    """Choose at most ``limit`` indexes that keep the smallest and largest of each stretch.

    The first and the last value are kept, so that a line keeps its ends. The indexes in ``keep``
    are chosen beside them; if they are more than ``limit``, they are thinned out likewise.
    """
    count, kept = len(values), np.unique(np.asarray(keep, dtype=np.intp))
    if count <= limit:
        return np.arange(count)
    if len(kept) > limit:
        kept = kept[decimate(values[kept], limit)]
    buckets = max((limit - 2) // 2, 1)
    edges = np.linspace(0, count, buckets + 1).astype(np.intp)
    spans = list(pairwise(edges.tolist()))
    lowest = [low + values[low:high].argmin() for low, high in spans]
    highest = [low + values[low:high].argmax() for low, high in spans]
    return np.unique(np.array([0, count - 1, *lowest, *highest, *kept], dtype=np.intp))


_AXIS: Figure = {
    "gridcolor": "var(--grid)",
    "linecolor": "var(--line)",
    "zeroline": False,
    "automargin": True,
    "ticks": "outside",
    "tickcolor": "var(--line)",
    "ticklen": 4,
}


def axis(title: str, **more: object) -> Figure:
    """Describe an axis with its title; ``more`` adds to plotly's settings of it."""
    return _AXIS | {"title": {"text": title, "font": {"size": 12}}} | more


def value_axis(title: str, **more: object) -> Figure:
    """Describe an axis of numbers."""
    return axis(title, tickformat=",~r", **more)


def upright(x: str | float, colour: str, width: float, **more: object) -> Figure:
    """Draw a line over the whole height of a chart."""
    place = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
    return place | {"type": "line", "line": {"color": colour, "width": width} | more}


def label(x: str | float, text: str, colour: str, size: int, **more: object) -> Figure:
    """Write a label above a place of a chart."""
    place = {"xref": "x", "yref": "paper", "x": x, "y": 1, "yanchor": "bottom", "showarrow": False}
    return place | {"text": text, "font": {"color": colour, "size": size}} | more


def heading(text: str, y: float) -> Figure:
    """Write a heading above a part of a chart, at the left and at this share of its height."""
    return {
        "text": text,
        "x": 0,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }


def frame(x: Figure, y: Figure, **more: object) -> Figure:
    """Lay out a chart with these two axes."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--muted)", "size": 12, "family": FONT},
        "hoverlabel": {
            "align": "left",
            "bgcolor": "var(--raised)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--text)", "size": 13, "family": FONT},
        },
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": "var(--muted)",
            "activecolor": "var(--accent)",
        },
        "margin": {"l": 8, "r": 12, "t": TOOLS + 20, "b": 8},
        "hovermode": "closest",
        "dragmode": "zoom",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": x,
        "yaxis": y,
    } | more
