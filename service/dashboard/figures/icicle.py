"""The modules of a model as an icicle: the wider a module, the longer its part of the step."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.contracts import Layers
from benchmarks.diagnosis import module_times as modules
from benchmarks.diagnosis.module_times import ModuleNode
from service.dashboard.figures import frame
from service.wording import formats

_STEP, _OUTSIDE = "\n", "\n\n"
"""Stand for what is no module; no module's name has a line's end."""
_RATES: list[list[object]] = [[0.0, "var(--grid)"], [1.0, "var(--c1)"]]
_CHANGES: list[list[object]] = [[0.0, "var(--better)"], [0.5, "var(--grid)"], [1.0, "var(--worse)"]]
LEAST_SCALE = 0.1
"""The colours of a comparison end at this change at least: noise stays pale."""


def module_times(layers: Layers, peak_flop_per_s: float | None = None) -> frame.Figure:
    """Draw a step's device time by module; colours tell the rate of arithmetic within each.

    The rate is a share of the device's peak where that is known.
    """
    unit, said = ("1", " of the device's peak") if peak_flop_per_s else ("FLOP/s", "")

    def rate(flops: float, seconds: float) -> float:
        return flops / seconds / (peak_flop_per_s or 1.0) if seconds else 0.0

    nodes = modules.tree(layers)
    rates = {name: rate(node.flops, node.s) for name, node in nodes.items()}
    most = max(rates.values(), default=0.0)
    factor, label = formats.scale(unit, most)
    texts = {
        name: f"{_text(node, layers)}<br>arithmetic {formats.quantity(rates[name], unit)}{said}"
        for name, node in nodes.items()
    }
    whole = rate(sum(layer.flops for layer in layers.modules), modules.step_s(layers))
    colours = {name: one * factor for name, one in (rates | {_STEP: whole, _OUTSIDE: 0.0}).items()}
    scale = _scale(f"Arithmetic, {label}{said}", _RATES, (0.0, most * factor or 1.0))
    return _figure(layers, nodes, (colours, texts), scale)


def module_changes(baseline: Layers, contender: Layers) -> frame.Figure:
    """Draw the contender's device time by module; colours tell the change against the baseline.

    A module that the baseline does not have is as much slower as the scale shows.
    """
    nodes, before = modules.tree(contender), modules.tree(baseline)
    then_s = {name: before[name].s if name in before else 0.0 for name in nodes}
    changes = {name: node.s / then_s[name] - 1 for name, node in nodes.items() if then_s[name]}
    changes[_STEP] = _change(modules.step_s(baseline), modules.step_s(contender))
    changes[_OUTSIDE] = _change(baseline.outside_s, contender.outside_s)
    end = min(max(LEAST_SCALE, *map(abs, changes.values())), 1.0)
    texts = {
        name: f"{_text(node, contender)}<br>baseline {formats.quantity(then_s[name], 's')}"
        + (f", {formats.change(changes[name])}" if name in changes else "")
        for name, node in nodes.items()
    }
    colours = {name: 100 * changes.get(name, end) for name in (*nodes, _STEP, _OUTSIDE)}
    scale = _scale("Time against the baseline, %", _CHANGES, (-100 * end, 100 * end))
    return _figure(contender, nodes, (colours, texts), scale)


def _change(before: float, after: float) -> float:
    return after / before - 1 if before else 0.0


def _figure(
    layers: Layers,
    nodes: Mapping[str, ModuleNode],
    said: tuple[Mapping[str, float], Mapping[str, str]],
    scale: frame.Figure,
) -> frame.Figure:
    colours, texts = said
    step_s = modules.step_s(layers)
    ids = {name: str(number) for number, name in enumerate(nodes)}
    labels = [frame.literal(node.label or node.own.class_name) for node in nodes.values()]
    whole = f"<b>step</b><br>{formats.quantity(step_s, 's')} of device time"
    outside = f"<b>outside of all modules</b><br>{_part(layers.outside_s, step_s)}"
    parents = [_STEP if node.parent is None else ids[node.parent] for node in nodes.values()]
    data = {
        "type": "icicle",
        "ids": [_STEP, *ids.values(), _OUTSIDE],
        "parents": ["", *parents, _STEP],
        "labels": ["step", *labels, "loss, optimizer"],
        "values": [0.0, *(modules.own_s(node.own) for node in nodes.values()), layers.outside_s],
        "branchvalues": "remainder",
        "customdata": [whole, *(texts[name] for name in nodes), outside],
        "hovertemplate": "%{customdata}<extra></extra>",
        "textinfo": "label",
        "tiling": {"orientation": "v", "pad": 1},
        "sort": False,
        "marker": {"colors": [colours[name] for name in (_STEP, *nodes, _OUTSIDE)], **scale},
    }
    margin = {"l": 8, "r": 8, "t": frame.TOOLS, "b": 8}
    layout = frame.frame({"visible": False}, {"visible": False}, margin=margin, dragmode=False)
    layout["uniformtext"] = {"minsize": 9, "mode": "hide"}
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


def _scale(title: str, colours: list[list[object]], ends: tuple[float, float]) -> frame.Figure:
    bar = {
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
    span = {"cmin": ends[0], "cmax": ends[1]}
    return {"colorscale": colours, **span, "showscale": True, "colorbar": bar}
