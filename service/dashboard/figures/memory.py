"""The memory of one step: bytes alive by category, what the allocator held, and the peak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks import contracts
from service.dashboard.figures import frame
from service.wording import formats

COLOURS = {
    "parameters": "var(--c1)",
    "optimizer": "var(--c4)",
    "kept": "var(--worse)",
    "workspace": "var(--line)",
    "graphs": "var(--mark)",
    "inputs": "var(--c5)",
    "gradients": "var(--c2)",
    "activations": "var(--c3)",
    "temporaries": "var(--c6)",
}
"""Colour of each category, in the order in which they are stacked: what lasts longest first."""
OTHER = "var(--muted)"
_HEADROOM = 1.12
"""Height of the chart over the highest line, whose name stands above it."""
_LATE = 0.9
"""Share of the width after which a label would be cut off at the right."""


def memory(recorded: contracts.Memory | None, titles: Mapping[str, str]) -> frame.Figure | None:
    """Draw what a step holds over its time; None where nothing in it was recorded.

    ``titles`` name the categories.
    """
    if recorded is None or len(set(recorded.at_s)) < 2:
        return None
    in_b, label = formats.scale("B", float(recorded.reserved_b))
    in_s, time_label = formats.scale("s", recorded.at_s[-1])
    at = np.array(recorded.at_s) * in_s
    top = _HEADROOM * in_b * max(*recorded.held_b, recorded.peak_b)
    x = frame.value_axis(f"Time of the host, {time_label}", range=[0.0, float(at.max())])
    y = frame.value_axis(f"Device memory, {label}", range=[0.0, top])
    areas = [
        _area(titles.get(name, name), name, (at, np.array(curve) * in_b), label)
        for name, curve in sorted(recorded.alive_b.items(), key=lambda pair: _order(pair[0]))
    ]
    held = np.array(recorded.held_b) * in_b
    peak = recorded.peak_at_s * in_s, recorded.peak_b * in_b
    data = [*areas, _line(at, held, label), _peak(peak, label)]
    marks = list(_phases(recorded, in_s))
    layout = frame.frame(x, y, hovermode="x unified", showlegend=False)
    layout |= {"shapes": [shape for shape, _ in marks], "annotations": [note for _, note in marks]}
    return {"data": data, "layout": layout, "config": frame.CONFIG}


def _order(name: str) -> tuple[int, str]:
    known = list(COLOURS)
    return (known.index(name) if name in COLOURS else len(known), name)


def _area(
    title: str, name: str, curve: tuple[frame.Floats, frame.Floats], label: str
) -> frame.Figure:
    colour = COLOURS.get(name, OTHER)
    return {
        "type": "scatter",
        "mode": "lines",
        "stackgroup": "alive",
        "name": frame.literal(title),
        "x": curve[0],
        "y": curve[1],
        "line": {"color": colour, "width": 0.5},
        "fillcolor": colour,
        "hovertemplate": f"%{{y:,.4~g}} {label}",
    }


def _line(at: frame.Floats, held: frame.Floats, label: str) -> frame.Figure:
    return {
        "type": "scatter",
        "mode": "lines+text",
        "name": "held by the allocator",
        "text": [*[""] * (len(at) - 1), "held by the allocator"],
        "textposition": "top left",
        "x": at,
        "y": held,
        "line": {"color": "var(--text)", "width": 1.5, "dash": "dot"},
        "hovertemplate": f"%{{y:,.4~g}} {label}",
    }


def _peak(at: tuple[float, float], label: str) -> frame.Figure:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": "peak",
        "text": ["peak"],
        "textposition": "middle right",
        "x": [at[0]],
        "y": [at[1]],
        "marker": {"color": "var(--text)", "size": 9, "symbol": "diamond"},
        "hovertemplate": f"%{{y:,.4~g}} {label}",
    }


def _phases(recorded: contracts.Memory, in_s: float) -> Iterator[tuple[frame.Figure, frame.Figure]]:
    """A line and a label where the forward and the backward pass and the update begin."""
    for name in ("forward", "backward", "optimizer"):
        if name in recorded.phases_s:
            x = recorded.phases_s[name] * in_s
            mark = frame.upright(x, "var(--muted)", 1, dash="dot")
            late = x > _LATE * recorded.at_s[-1] * in_s
            anchor = "right" if late else "left"
            yield mark, frame.label(x, name, "var(--text)", 11, xanchor=anchor)
