"""The loss of a case and of fp32 eager over some hundred steps, and the difference between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks import contracts
from benchmarks.diagnosis.loss_curves import SMOOTHED, bounds, smoothed
from service.dashboard.figures import frame

PLACES = 200
"""Steps that are drawn of each curve."""
_LOWER, _UPPER = [0.0, 0.36], [0.48, 1.0]
"""Shares of the height."""
_SETTLED = 0.5
"""Share of the steps, the last ones, that the difference's axis is made for: the first steps of
training may be a hundred times as far apart, and say nothing of where it ends."""


def loss_curves(told: contracts.LongParity | None) -> frame.Figure | None:
    """Draw both medians with the bands of their seeds, and the mean difference below; None without
    whole and finite curves.

    All are moving means: a single batch would hide what lasts.
    """
    if told is None:
        return None
    case, reference = _curves(told.case), _curves(told.reference)
    if case is None or reference is None or case.shape != reference.shape:
        return None
    kept = np.unique(np.linspace(0, case.shape[1] - 1, PLACES).astype(np.intp))
    at, apart = (kept + SMOOTHED).astype(np.float64), (case - reference)[:, kept]
    data = [
        *_line(at, reference[:, kept], "fp32 eager", "var(--c2)"),
        *_line(at, case[:, kept], "this case", "var(--c1)"),
        _band(at, *bounds(apart), "var(--muted)") | {"yaxis": "y2"},
        _mean(at, apart.mean(axis=0), "difference", "var(--text)") | {"yaxis": "y2"},
    ]
    scale = "log" if min(case.min(), reference.min()) > 0 else "linear"
    layout = frame.frame(
        frame.value_axis("Step, mean of ten", anchor="y2"),
        frame.value_axis("Loss", domain=_UPPER, type=scale),
        yaxis2=frame.value_axis(
            "Difference", domain=_LOWER, zeroline=True, range=_settled(apart, told.margin)
        ),
        hovermode="x unified",
        shapes=_marks(told),
    )
    return {"data": data, "layout": layout, "config": frame.CONFIG}


def _settled(apart: frame.Floats, margin: float) -> list[float]:
    """The range that holds the difference of the last steps with its bounds, and the margin."""
    low, high = bounds(apart[:, -round(_SETTLED * apart.shape[1]) :])
    bottom, top = min(float(low.min()), 0.0), max(float(high.max()), margin)
    air = 0.1 * (top - bottom)
    return [bottom - air, top + air]


def _curves(traces: Sequence[contracts.Trace]) -> frame.Floats | None:
    """Smoothed losses [seeds, steps]; None where two seeds have none, or not as many steps."""
    losses = [frame.values_of(one) for one in traces]
    lengths = set(map(len, losses))
    if len(losses) < 2 or len(lengths) > 1 or min(lengths) < SMOOTHED:
        return None
    return smoothed(np.array(losses))


def _line(at: frame.Floats, losses: frame.Floats, name: str, colour: str) -> list[frame.Figure]:
    band = _band(at, losses.min(axis=0), losses.max(axis=0), colour)
    return [band, _mean(at, np.median(losses, axis=0), name, colour)]


def _band(at: frame.Floats, low: frame.Floats, high: frame.Floats, colour: str) -> frame.Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.concatenate([at, at[::-1]]),
        "y": np.concatenate([high, low[::-1]]),
        "fill": "toself",
        "fillcolor": colour,
        "line": {"width": 0},
        "opacity": 0.2,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _mean(at: frame.Floats, values: frame.Floats, name: str, colour: str) -> frame.Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": at,
        "y": values,
        "line": {"color": colour, "width": 1.5},
        "hovertemplate": "%{y:,.4~g}",
    }


def _marks(told: contracts.LongParity) -> list[frame.Figure]:
    """The margin, and the step at which the curves part."""
    across = {"xref": "paper", "yref": "y2", "x0": 0, "x1": 1, "y0": told.margin, "y1": told.margin}
    line = {"color": "var(--worse)", "width": 1, "dash": "dash"}
    parted = [frame.upright(told.parts_at, "var(--worse)", 1, dash="dot")] if told.parts_at else []
    return [across | {"type": "line", "line": line}, *parted]
