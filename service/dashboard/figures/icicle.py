"""A step as an icicle: the wider a box, the longer its part; the boxes below lie within it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from benchmarks.contracts import Layers, Operation, Profile
from benchmarks.diagnosis import module_times as modules
from benchmarks.diagnosis.module_times import ModuleNode
from service.dashboard.figures import frame
from service.wording import formats

_STEP, _OUTSIDE = "\n", "\n\n"
"""Stand for what is no module; no module's name has a line's end."""
_RATES: list[list[object]] = [[0.0, "var(--grid)"], [1.0, "var(--c1-soft)"]]
_CHANGES: list[list[object]] = [
    [0.0, "var(--better-band)"],
    [0.5, "var(--grid)"],
    [1.0, "var(--worse-band)"],
]
"""Text in the page's own colour can be read on all of them, in the light and in the dark."""
LEAST_SCALE = 0.1
"""The colours of a comparison end at this change at least: noise stays pale."""
LEVEL_PX, AXIS_PX, COLOURS_PX = 40, 46, 60
"""Heights of a box, and of the axis and the colours below all of them."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A part of a step that lies within another one."""

    key: Hashable
    within: Hashable | None
    name: str
    """In full, as the file of numbers has it."""
    label: str
    s: float
    """All boxes within it included."""
    text: str


@dataclass(frozen=True, slots=True)
class _Colours:
    """The values that colour boxes, by key, with their scale."""

    values: Mapping[Hashable, float]
    scale: list[list[object]]
    title: str
    ends: tuple[float, float]


def module_times(layers: Layers, peak_flop_per_s: float | None = None) -> frame.Figure:
    """Draw a step's device time by module; colours tell the rate of arithmetic within each.

    The rate is a share of the device's peak where that is known.
    """
    nodes, step_s = modules.tree(layers), modules.step_s(layers)
    work: dict[Hashable, tuple[float, float]] = {
        _STEP: (sum(layer.flops for layer in layers.modules), step_s),
        _OUTSIDE: (0.0, layers.outside_s),
    }
    work |= {name: (node.flops, node.s) for name, node in nodes.items()}
    colours, rates = _rates(work, peak_flop_per_s)
    texts = {name: f"{_text(node, layers)}<br>{rates[name]}" for name, node in nodes.items()}
    return _figure(_modules(layers, nodes, texts), colours)


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
    values: dict[Hashable, float] = {
        name: 100 * changes.get(name, end) for name in (*nodes, _STEP, _OUTSIDE)
    }
    title, ends = "Time against the baseline, %", (-100 * end, 100 * end)
    colours = _Colours(values, _CHANGES, title, ends)
    return _figure(_modules(contender, nodes, texts), colours)


def line_times(profile: Profile, peak_flop_per_s: float | None = None) -> frame.Figure:
    """Draw a step's device time by file, line and operation, the longest first.

    Colours are those of `module_times`.
    """
    groups: dict[tuple[str | int, ...], list[Operation]] = defaultdict(list)
    for number, one in enumerate(profile.operations):
        path: tuple[str | int, ...] = (*_place(one.source), number)
        for depth in range(len(path)):
            groups[path[: depth + 1]].append(one)
    named_s = _seconds(profile.operations)
    step_s = max(sum(profile.seconds.values()), named_s)
    work: dict[Hashable, tuple[float, float]] = {
        _STEP: (_flops(profile.operations), step_s),
        _OUTSIDE: (0.0, step_s - named_s),
    }
    work |= {path: (_flops(some), _seconds(some)) for path, some in groups.items()}
    colours, rates = _rates(work, peak_flop_per_s)
    boxes = [
        _line_box(path, some, [_part(_seconds(some), step_s), _counted(some, rates[path])])
        for path, some in sorted(groups.items(), key=lambda pair: -_seconds(pair[1]))
    ]
    rest = _rest("other operations", "all other operations", step_s - named_s, step_s)
    return _figure([_whole(step_s), *boxes, rest], colours)


def _place(source: str) -> tuple[str, ...]:
    """Split ``file:line``, or several lines of one file after each other."""
    file, known, _ = source.partition(":")
    return (file, source.replace(f"{file}:", "")) if known else ("line not known",)


def _counted(some: Iterable[Operation], rate: str) -> str:
    return "arithmetic not counted" if all(one.flops is None for one in some) else rate


def _line_box(path: tuple[str | int, ...], some: Sequence[Operation], said: list[str]) -> _Box:
    """Make a file, a line or an operation, whose key is its number."""
    first, last = some[0], path[-1]
    if isinstance(last, int):
        name, label = f"{first.name} {first.source}".strip(), first.name
        said = [*said, f"{formats.number(first.calls)} calls"]
    elif len(path) == 1:
        name, label = last, last.rpartition("/")[2]
    else:
        name, label = first.source, f"line {last}"
    text = "<br>".join([f"<b>{frame.literal(name)}</b>", *said])
    return _Box(path, path[:-1] or _STEP, name, frame.literal(label), _seconds(some), text)


def _seconds(some: Iterable[Operation]) -> float:
    return sum(one.self_s for one in some)


def _flops(some: Iterable[Operation]) -> float:
    return sum(one.flops or 0.0 for one in some)


def _rates(
    work: Mapping[Hashable, tuple[float, float]], peak_flop_per_s: float | None
) -> tuple[_Colours, dict[Hashable, str]]:
    """Make colours and words of FLOPs and seconds: their rate, or its share of the peak."""
    unit, said = ("1", " of the device's peak") if peak_flop_per_s else ("FLOP/s", "")
    rates = {
        key: flops / seconds / (peak_flop_per_s or 1.0) if seconds else 0.0
        for key, (flops, seconds) in work.items()
    }
    most = max(rates.values())
    factor, label = formats.scale(unit, most)
    values = {key: rate * factor for key, rate in rates.items()}
    ends = (0.0, most * factor or 1.0)
    words = {key: f"arithmetic {formats.quantity(rates[key], unit)}{said}" for key in rates}
    return _Colours(values, _RATES, f"Arithmetic, {label}{said}", ends), words


def _change(before: float, after: float) -> float:
    return after / before - 1 if before else 0.0


def _modules(
    layers: Layers, nodes: Mapping[str, ModuleNode], texts: Mapping[str, str]
) -> list[_Box]:
    """Make a box of the step, of each module, and of what lies outside of them."""
    step_s = modules.step_s(layers)
    boxes = [
        _Box(
            name,
            _STEP if node.parent is None else node.parent,
            name or node.own.class_name,
            frame.literal(node.label or node.own.class_name),
            node.s,
            texts[name],
        )
        for name, node in nodes.items()
    ]
    rest = _rest("loss, optimizer", "outside of all modules", layers.outside_s, step_s)
    return [_whole(step_s), *boxes, rest]


def _whole(step_s: float) -> _Box:
    text = f"<b>step</b><br>{formats.quantity(step_s, 's')} of device time"
    return _Box(_STEP, None, "step", "step", step_s, text)


def _rest(label: str, said: str, seconds: float, step_s: float) -> _Box:
    text = f"<b>{said}</b><br>{_part(seconds, step_s)}"
    return _Box(_OUTSIDE, _STEP, said, label, seconds, text)


def _laid_out(boxes: Iterable[_Box]) -> Iterator[tuple[int, float, _Box]]:
    """Give each box with its depth and where it begins: beside its siblings, within its parent."""
    inner: dict[Hashable | None, list[_Box]] = defaultdict(list)
    for box in boxes:
        inner[box.within].append(box)
    ahead = [(0, 0.0, box) for box in inner[None]]
    while ahead:
        depth, start_s, box = ahead.pop()
        yield depth, start_s, box
        starts = accumulate((one.s for one in inner[box.key]), initial=start_s)
        below = [(depth + 1, at, one) for at, one in zip(starts, inner[box.key], strict=False)]
        ahead.extend(reversed(below))


def _figure(boxes: Sequence[_Box], colours: _Colours) -> frame.Figure:
    """Draw boxes, of which the first holds all others."""
    drawn = list(_laid_out(boxes))
    factor, unit = formats.scale("s", boxes[0].s)
    levels = 1 + max(depth for depth, *_ in drawn)
    data = {
        "type": "bar",
        "orientation": "h",
        "ids": [box.name for *_, box in drawn],
        "y": [depth for depth, *_ in drawn],
        "base": [start_s * factor for _, start_s, _ in drawn],
        "x": [box.s * factor for *_, box in drawn],
        "text": [box.label for *_, box in drawn],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": "var(--text)"},
        "customdata": [box.text for *_, box in drawn],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": _marker([box for *_, box in drawn], colours, levels),
    }
    ends: frame.Figure = {"range": [0, boxes[0].s * factor]} if boxes[0].s else {}
    x = frame.value_axis(f"Device time, {unit}", showgrid=False, **ends)
    y: frame.Figure = {"visible": False, "fixedrange": True, "range": [levels - 0.5, -0.5]}
    margin = {"l": 8, "r": 8, "t": frame.TOOLS, "b": AXIS_PX + COLOURS_PX}
    height = frame.TOOLS + levels * LEVEL_PX + AXIS_PX + COLOURS_PX
    layout = frame.frame(x, y, margin=margin, height=height, bargap=0)
    layout["uniformtext"] = {"minsize": 11, "mode": "hide"}
    return {"data": [data], "layout": layout, "config": frame.CONFIG}


def _marker(boxes: Sequence[_Box], colours: _Colours, levels: int) -> frame.Figure:
    bar = {
        "title": {"text": colours.title, "side": "top", "font": {"size": 12}},
        "orientation": "h",
        "thickness": 10,
        "lenmode": "pixels",
        "len": 280,
        "x": 0,
        "xanchor": "left",
        "y": -AXIS_PX / (levels * LEVEL_PX),
        "yanchor": "top",
        "outlinewidth": 0,
    }
    return {
        "color": [colours.values[box.key] for box in boxes],
        "line": {"color": "var(--surface)", "width": 1},
        "colorscale": colours.scale,
        "cmin": colours.ends[0],
        "cmax": colours.ends[1],
        "showscale": True,
        "colorbar": bar,
    }


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
