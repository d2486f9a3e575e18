"""The curve of a sweep as one HTML file that needs no service and no network."""

from __future__ import annotations

import html
import re
from importlib.resources import files
from pathlib import Path

from benchmarks.diagnosis import knee
from cli.exits import Stop
from cli.output.sweep_report import Sweep, rate, sentences
from service.dashboard.figures import frame
from service.wording import formats

_COLOUR = re.compile(r"--([\w-]+): light-dark\((#\w+),")
_WIDE = 8.0
"""Ratio of the largest to the smallest size from which on sizes stand on a logarithmic axis."""
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<body style="font-family: system-ui, sans-serif; max-width: 60rem; margin: 2rem auto">
<h1 style="font-size: 1.25rem">{title}</h1>{sentences}
<div id="plot" style="height: 26rem"></div>
<script>{plotly}</script>
<script>const f = {figure}; Plotly.newPlot("plot", f.data, f.layout, f.config);</script>
</body></html>
"""


def check(file: Path) -> None:
    """Make sure beforehand that the page can be made.

    Raises:
        Stop: there is no such folder, or it names a folder.
    """
    if file.is_dir():
        raise Stop(f"{file} is a folder; name a file in it.")
    if not file.absolute().parent.is_dir():
        raise Stop(f"There is no folder {file.parent} for {file.name}.")


def write(file: Path, sweep: Sweep) -> None:
    """Write the page to ``file``.

    Raises:
        Stop: it cannot be written.
    """
    try:
        file.write_text(page(sweep), encoding="utf-8")
    except OSError as error:
        raise Stop(f"{file} cannot be written: {error.strerror}.") from error


def page(sweep: Sweep) -> str:
    """The whole page; colours are the dashboard's light ones."""
    static = files("service.dashboard") / "static"
    css = (static / "app.css").read_text(encoding="utf-8")
    light = dict(_COLOUR.findall(css))
    drawn = re.sub(
        r"var\(--([\w-]+)\)", lambda m: light.get(m[1], m[0]), str(frame.embed(figure(sweep)))
    )
    script = static / "plotly-basic.min.js"
    workload = sweep.points[0].result.case.workload
    return _PAGE.format(
        title=html.escape(f"Throughput of {workload} over {sweep.axis}"),
        sentences="".join(f"<p>{html.escape(line)}</p>" for line in sentences(sweep)),
        plotly=script.read_text(encoding="utf-8"),
        figure=drawn,
    )


def figure(sweep: Sweep) -> frame.Figure:
    """Draw throughput with its intervals; values that failed stand as crosses at zero."""
    curve = sweep.curve()
    at_knee = None if curve is None else curve.knee
    marked = [] if at_knee is None else [_knee(at_knee)]
    shapes = [] if curve is None or at_knee is None else _shapes(curve, at_knee)
    return {
        "data": [_line(sweep), _crosses(sweep), *marked],
        "layout": frame.frame(
            frame.axis(frame.literal(sweep.axis), **_scale(sweep)),
            frame.value_axis(f"Throughput, {frame.literal(sweep.unit)}", rangemode="tozero"),
            showlegend=False,
            shapes=shapes,
        ),
        "config": frame.CONFIG,
    }


def _line(sweep: Sweep) -> frame.Figure:
    points = sorted(sweep.measured, key=lambda p: float(p.value) if sweep.has_sizes else 0.0)
    told = [rate(point) for point in points]
    halves = [0.0 if one.high is None else one.high - one.value for one in told]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [_place(sweep, point.value) for point in points],
        "y": [one.value for one in told],
        "error_y": {"type": "data", "array": halves, "thickness": 1},
        "text": [formats.quantity(one.value, sweep.unit) for one in told],
        "hovertemplate": "%{x}: %{text}<extra></extra>",
        "line": {"color": "var(--c1)", "width": 1.5},
        "marker": {"color": "var(--c1)", "size": 7},
    }


def _crosses(sweep: Sweep) -> frame.Figure:
    failed = [point for point in sweep.points if not point.is_measured]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [_place(sweep, point.value) for point in failed],
        "y": [0.0] * len(failed),
        "text": [frame.literal(point.result.reason) for point in failed],
        "hovertemplate": "%{x}: %{text}<extra></extra>",
        "cliponaxis": False,
        "marker": {"color": "var(--worse)", "size": 9, "symbol": "x"},
    }


def _place(sweep: Sweep, value: str) -> str | float:
    return float(value) if sweep.has_sizes else value


def _scale(sweep: Sweep) -> frame.Figure:
    if not sweep.has_sizes:
        return {"type": "category"}
    sizes = sorted(float(point.value) for point in sweep.points)
    wide = sizes[0] > 0 and sizes[-1] / sizes[0] >= _WIDE
    return {"type": "log" if wide else "linear", "tickvals": sizes, "tickformat": ","}


def _knee(at: knee.SizePoint) -> frame.Figure:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [at.size],
        "y": [at.rate],
        "text": ["knee"],
        "textposition": "top left",
        "hoverinfo": "skip",
        "marker": {"color": "var(--mark)", "size": 12, "symbol": "circle-open"},
    }


def _shapes(curve: knee.Curve, at_knee: knee.SizePoint) -> list[frame.Figure]:
    """A line at the knee, and one at what is within 5 % of the most."""
    near = (1 - knee.NEAR) * curve.most.rate
    level: frame.Figure = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": near}
    dotted = {"color": "var(--muted)", "width": 1, "dash": "dot"}
    upright = frame.upright(at_knee.size, "var(--mark)", 1.5, dash="dash")
    return [level | {"y1": near, "line": dotted}, upright]
