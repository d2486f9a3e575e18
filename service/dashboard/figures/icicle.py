"""The modules of a model as an icicle: the wider a module, the longer its part of the step."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.contracts import Layers
from benchmarks.diagnosis import module_times as modules
from benchmarks.diagnosis.module_times import ModuleNode
from service.dashboard.figures import frame
from service.wording import formats

_STEP, _OUTSIDE = "step", "outside"
"""Ids of what is no module; modules have numbers."""
_RATES = [[0.0, "var(--grid)"], [1.0, "var(--c1)"]]
_CHANGES = [[0.0, "var(--better)"], [0.5, "var(--grid)"], [1.0, "var(--worse)"]]
LEAST_SCALE = 0.1
"""The colours of a comparison end at this change at least: noise stays pale."""


def module_times(layers: Layers, peak_flop_per_s: float | None = None) -> frame.Figure:
    """Draw a step's device time by module; colours tell the rate of arithmetic within each.

    The rate is a share of the device's peak where that is known.
    """
    nodes = modules.tree(layers)
    rates = {name: node.flops / node.s if node.s else 0.0 for name, node in nodes.items()}
    unit = "1" if peak_flop_per_s else "FLOP/s"
    shown = {name: rate / (peak_flop_per_s or 1.0) for name, rate in rates.items()}
    most = max(shown.values(), default=0.0)
    factor, label = formats.scale(unit, most)
    said = f"Arithmetic, {label}" + (" of the peak" if peak_flop_per_s else "")
    colours = {name: value * factor for name, value in shown.items()}
    texts = {name: _text(node, layers) for name, node in nodes.items()}
    for name, value in shown.items():
        texts[name] += f"<br>arithmetic {formats.quantity(value, unit)}"
        texts[name] += " of the device's peak" if peak_flop_per_s else ""
    scale = {"colorscale": _RATES, "cmin": 0.0, "cmax": most * factor or 1.0}
    bar = {"showscale": True, "colorbar": _colour_bar(said)}
    return _figure(layers, nodes, (colours, texts), scale | bar)


def module_changes(baseline: Layers, contender: Layers) -> frame.Figure:
    """Draw the contender's device time by module; colours tell the change against the baseline."""
    nodes, before = modules.tree(contender), modules.tree(baseline)
    changes: dict[str, float | None] = {}
    texts: dict[str, str] = {}
    for name, node in nodes.items():
        then = before[name].s if name in before else 0.0
        changes[name] = 100 * (node.s / then - 1) if then else None
        was = (
            f"{formats.quantity(then, 's')}, {formats.change(node.s / then - 1)}"
            if then
            else formats.DASH
        )
        texts[name] = f"{_text(node, contender)}<br>baseline {was}"
    sizes = [abs(change) for change in changes.values() if change is not None]
    end = max(100 * LEAST_SCALE, min(max(sizes, default=0.0), 100.0))
    scale = {"colorscale": _CHANGES, "cmin": -end, "cmax": end, "showscale": True}
    bar = {"colorbar": _colour_bar("Time against the baseline, %")}
    return _figure(contender, nodes, (changes, texts), scale | bar)


def _figure(
    layers: Layers,
    nodes: Mapping[str, ModuleNode],
    said: tuple[Mapping[str, float | None], Mapping[str, str]],
    scale: frame.Figure,
) -> frame.Figure:
    colours, texts = said
    step_s = modules.step_s(layers)
    ids = {name: str(number) for number, name in enumerate(nodes)}
    labels = [frame.literal(node.label or node.own.class_name) for node in nodes.values()]
    whole = f"<b>step</b><br>{formats.quantity(step_s, 's')} of device time"
    outside = f"<b>outside of all modules</b><br>{_part(layers.outside_s, step_s)}"
    data = {
        "type": "icicle",
        "ids": [_STEP, *ids.values(), _OUTSIDE],
        "parents": [
            "",
            *(_STEP if node.parent is None else ids[node.parent] for node in nodes.values()),
            _STEP,
        ],
        "labels": ["step", *labels, "loss, optimizer"],
        "values": [0.0, *(modules.own_s(n.own) for n in nodes.values()), layers.outside_s],
        "branchvalues": "remainder",
        "customdata": [whole, *(texts[name] for name in nodes), outside],
        "hovertemplate": "%{customdata}<extra></extra>",
        "textinfo": "label",
        "tiling": {"orientation": "v", "pad": 1},
        "sort": False,
        "marker": {"colors": [None, *(colours[name] for name in nodes), None], **scale},
        "root": {"color": "var(--sunken)"},
    }
    margin = {"l": 8, "r": 8, "t": frame.TOOLS, "b": 8}
    layout = frame.frame({"visible": False}, {"visible": False}, margin=margin, dragmode=False)
    return {"data": [data], "layout": layout, "config": frame.CONFIG}


def _text(node: ModuleNode, layers: Layers) -> str:
    """A module's figures, all modules within it included."""
    name = frame.literal(node.own.name or "the model")
    lines = [
        f"<b>{name}</b> {frame.literal(node.own.class_name)}",
        _part(node.s, modules.step_s(layers)),
        f"forward {formats.quantity(node.forward_s, 's')}, "
        f"backward {formats.quantity(node.backward_s, 's')}",
        f"{formats.number(node.flops / 1e9)} GFLOP",
        f"keeps {formats.quantity(float(node.kept_b), 'B')} for the backward",
        f"weights {formats.quantity(float(node.weights_b), 'B')}",
    ]
    return "<br>".join(lines)


def _part(seconds: float, step_s: float) -> str:
    share = f", {formats.share(seconds / step_s)} of the step" if step_s else ""
    return f"{formats.quantity(seconds, 's')}{share}"


def _colour_bar(title: str) -> frame.Figure:
    return {
        "title": {"text": title, "side": "top", "font": {"size": 12}},
        "orientation": "h",
        "thickness": 10,
        "len": 0.5,
        "x": 0,
        "xanchor": "left",
        "y": 0,
        "yanchor": "top",
        "outlinewidth": 0,
    }
