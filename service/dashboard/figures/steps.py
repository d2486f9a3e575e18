"""The steps of one run: how their times are distributed, and how they went over the pass."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from benchmarks import contracts
from service.dashboard.figures import frame
from service.wording import formats

PassName = Literal["full", "synth"]

_PASS_WORDS: dict[PassName, str] = {"full": "with input", "synth": "without input"}
_PASS_COLOURS: dict[PassName, str] = {"full": "var(--c1)", "synth": "var(--c2)"}


def timed(replicate: contracts.Replicate, name: PassName) -> contracts.Pass:
    """Give one of the two passes of a process."""
    return replicate.full if name == "full" else replicate.synth


def step_histogram(result: contracts.Result) -> frame.Figure | None:
    """Draw how step times are distributed, all processes together; None without step times.

    Each pass has an axis of its own: they may lie so far apart that one axis would show two bars.
    """
    passes = {
        name: np.concatenate(
            [frame.values_of(timed(r, name).step_trace) for r in result.replicates]
        )
        for name in _PASS_WORDS
        if result.replicates
    }
    passes = {name: steps for name, steps in passes.items() if len(steps)}
    if not passes:
        return None
    margin = {"l": 8, "r": 12, "t": frame.TOOLS, "b": 8}
    layout = frame.frame({}, {}, showlegend=False, bargap=0, margin=margin)
    data = []
    for row, (name, steps) in enumerate(passes.items()):
        factor, label = formats.scale("s", float(np.median(steps)))
        axis = "" if row == 0 else str(row + 1)
        top = 1 - row / len(passes)
        title = f"Step time {_PASS_WORDS[name]}, {label}"
        layout[f"xaxis{axis}"] = frame.value_axis(title, anchor=f"y{axis}")
        domain = [top - 1 / len(passes) + (0.26 if len(passes) > 1 else 0), top]
        layout[f"yaxis{axis}"] = frame.value_axis(
            "Steps", anchor=f"x{axis}", domain=domain, nticks=4
        )
        bars = _histogram_bars(name, steps, (factor, label))
        data.append(bars | {"xaxis": f"x{axis}", "yaxis": f"y{axis}"})
    return {"data": data, "layout": layout, "config": frame.CONFIG}


def _histogram_edges(steps: frame.Floats) -> frame.Floats:
    low, p50, p95, high = np.quantile(steps, [0.0, 0.5, 0.95, 1.0])
    top = min(high, p95 + 2 * (p95 - p50))
    if top <= low:
        top = low * 1.001 + 1e-9
    return np.linspace(low, top, int(np.clip(np.sqrt(len(steps)) * 2, 12, 60)) + 1)


def _histogram_bars(name: PassName, steps: frame.Floats, shown: tuple[float, str]) -> frame.Figure:
    factor, label = shown
    edges = _histogram_edges(steps)
    counts, _ = np.histogram(np.minimum(steps, edges[-1]), edges)
    beyond = int((steps > edges[-1]).sum())
    texts = [
        f"{formats.number(low * factor)}{formats.DASH}{formats.number(high * factor)} {label}"
        for low, high in pairwise(edges.tolist())
    ]
    if beyond:
        slowest = formats.number(float(steps.max()) * factor)
        texts[-1] += f" or slower ({beyond} beyond, slowest {slowest} {label})"
    return {
        "type": "bar",
        "name": _PASS_WORDS[name],
        "x": (edges[:-1] + edges[1:]) / 2 * factor,
        "y": counts,
        "width": float(edges[1] - edges[0]) * factor * 0.94,
        "customdata": texts,
        "hovertemplate": "%{customdata}: %{y} steps<extra>" + _PASS_WORDS[name] + "</extra>",
        "marker": {"color": _PASS_COLOURS[name]},
    }


def step_times(result: contracts.Result) -> frame.Figure | None:
    """Draw each step's time over the pass, one line a process; None without step times."""
    lines = [
        (name, number, frame.values_of(timed(replicate, name).step_trace))
        for name in _PASS_WORDS
        for number, replicate in enumerate(result.replicates, start=1)
    ]
    lines = [line for line in lines if len(line[2])]
    if not lines:
        return None
    factor, label = formats.scale("s", float(np.median(np.concatenate([x[2] for x in lines]))))
    limit = frame.points_of_each(len(lines))
    layout = frame.frame(
        frame.value_axis("Seconds since the pass began"),
        frame.value_axis(f"Step time, {label}", rangemode="tozero"),
    )
    many = len(result.replicates) > 1
    data = [
        _step_line(name, number, steps, (factor, label, limit, many))
        for name, number, steps in lines
    ]
    return {"data": data, "layout": layout, "config": frame.CONFIG}


def _step_line(
    name: PassName, number: int, steps: frame.Floats, shown: tuple[float, str, int, bool]
) -> frame.Figure:
    factor, label, limit, many = shown
    kept = frame.decimate(steps, limit)
    title = f"{_PASS_WORDS[name]}, process {number}" if many else _PASS_WORDS[name]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _PASS_WORDS[name],
        "legendgroup": name,
        "showlegend": number == 1,
        "x": np.cumsum(steps)[kept],
        "y": steps[kept] * factor,
        "customdata": kept + 1,
        "hovertemplate": f"step %{{customdata}}: %{{y:,.4~g}} {label}<extra>{title}</extra>",
        "line": {"color": _PASS_COLOURS[name], "width": 1.2},
        "opacity": max(1.0 - 0.25 * (number - 1), 0.35),
    }
