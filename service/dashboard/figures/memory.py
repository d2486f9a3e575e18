"""The memory of one step: bytes alive by category, what the allocator held, and the peak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks import contracts
from service.dashboard.figures import frame
from service.wording import formats

_COLOURS = {
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
_OTHER = "var(--muted)"


def memory(recorded: contracts.Memory | None, titles: Mapping[str, str]) -> frame.Figure | None:
    """Draw what a step holds over its time; None where nothing in it was recorded.

    ``titles`` name the categories.
    """
    if recorded is None or len(set(recorded.at_s)) < 2:
        return None
    in_b, label = formats.scale("B", float(recorded.reserved_b))
    in_s, time_label = formats.scale("s", recorded.at_s[-1])
    at = np.array(recorded.at_s) * in_s
    x = frame.value_axis(f"Time since the step began, as the host queues it, {time_label}")
    y = frame.value_axis(f"Device memory, {label}", rangemode="tozero")
    areas = [
        _area(titles.get(name, name), name, (at, np.array(curve) * in_b), label)
        for name, curve in recorded.alive_b.items()
    ]
    held = np.array(recorded.held_b) * in_b
    peak = recorded.peak_at_s * in_s, recorded.peak_b * in_b
    data = [*areas, _line(at, held, label), _peak(peak, label)]
    marks = list(_phases(recorded, in_s))
    layout = frame.frame(x, y, hovermode="x unified")
    layout |= {"shapes": [shape for shape, _ in marks], "annotations": [note for _, note in marks]}
    return {"data": data, "layout": layout, "config": frame.CONFIG}


def _area(
    title: str, name: str, curve: tuple[frame.Floats, frame.Floats], label: str
) -> frame.Figure:
    colour = _COLOURS.get(name, _OTHER)
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
        "mode": "lines",
        "name": "held by the allocator",
        "x": at,
        "y": held,
        "line": {"color": "var(--text)", "width": 1.5, "dash": "dot"},
        "hovertemplate": f"%{{y:,.4~g}} {label}",
    }


def _peak(at: tuple[float, float], label: str) -> frame.Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "peak",
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
            yield mark, frame.label(x, name, "var(--text)", 11, xanchor="left", yanchor="top")
