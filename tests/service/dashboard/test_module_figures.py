"""The icicles of a step: widths are times, colours are rates or changes."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest
from builders.measured import a_result
from builders.profiled import a_layer, a_profile, a_transformer, profiled

from benchmarks.contracts import Layers, Operation
from cli.output import result_panel
from cli.output.console import Console
from service.dashboard import figures


def read(figure: figures.Figure) -> dict[str, Any]:
    """The chart's one trace, as the browser parses it."""
    (trace,) = orjson.loads(str(figures.embed(figure)))["data"]
    assert isinstance(trace, dict)
    return trace


def by_label(trace: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    return dict(zip(trace["text"], values, strict=True))


def below(trace: dict[str, Any], name: str) -> dict[str, float]:
    """The boxes directly below one, by their labels from left to right, with their widths."""
    boxes = list(zip(trace["base"], trace["x"], trace["y"], trace["text"], strict=True))
    start, width, level, _ = next(box for box in boxes if box[3] == name)
    return {
        label: size
        for at, size, depth, label in sorted(boxes)
        if depth == level + 1 and start <= at < start + width
    }


def test_widths_are_times_and_those_within_a_module_lie_below_it() -> None:
    trace = read(figures.module_times(a_transformer(0.001)))
    assert below(trace, "step") == pytest.approx({"GPT": 450, "loss, optimizer": 50})
    assert below(trace, "blocks.7") == pytest.approx({"norm": 3, "attn": 9, "mlp": 24})
    assert trace["base"][trace["text"].index("loss, optimizer")] == pytest.approx(450)


def test_colours_are_the_share_of_the_devices_peak_where_it_is_known() -> None:
    trace = read(figures.module_times(a_transformer(1.0), peak_flop_per_s=4e9))
    colours = by_label(trace, trace["marker"]["color"])
    assert colours["blocks.7"] == pytest.approx(100 * 26e9 / 36 / 4e9)
    assert trace["marker"]["colorbar"]["title"]["text"] == "Arithmetic, % of the device's peak"
    text = by_label(trace, trace["customdata"])["blocks.7"].replace("\u00a0", " ")
    assert "7.2 % of the step" in text
    assert "18.06 % of the device's peak" in text
    without = read(figures.module_times(a_transformer(1.0)))
    assert without["marker"]["colorbar"]["title"]["text"] == "Arithmetic, GFLOP/s"


def test_of_two_runs_colours_are_changes() -> None:
    before, after = a_transformer(1.0), a_transformer(1.0, twice="blocks.7")
    trace = read(figures.module_changes(before, after))
    colours = by_label(trace, trace["marker"]["color"])
    assert (colours["blocks.7"], colours["blocks.8"]) == (pytest.approx(100), pytest.approx(0))
    assert colours["step"] == pytest.approx(100 * 36 / 500)
    assert (trace["marker"]["cmin"], trace["marker"]["cmax"]) == (-100, 100)


def test_small_changes_stay_pale() -> None:
    trace = read(figures.module_changes(a_transformer(1.0), a_transformer(1.01)))
    assert (trace["marker"]["cmin"], trace["marker"]["cmax"]) == (-10, 10)


def test_names_of_strangers_are_shown_as_they_are_and_take_no_place_of_the_charts_own() -> None:
    names = ("step", "outside", "a..b", ".", "0", "<b>x</b>")
    strange = Layers(
        of="step", steps=3, outside_s=1.0, modules=tuple(a_layer(n, "<i>", 1.0) for n in names)
    )
    trace = read(figures.module_times(strange))
    assert len(trace["x"]) == len(names) + 2
    assert "&lt;b&gt;x&lt;/b&gt;" in trace["text"]
    assert not any("<i>" in text for text in trace["customdata"])


def test_a_step_without_any_time_is_drawn_all_the_same() -> None:
    idle = Layers(of="step", steps=3, outside_s=0.0, modules=(a_layer("a", "A", 0.0),))
    assert read(figures.module_times(idle))["x"] == [0, 0, 0]
    assert read(figures.module_changes(idle, idle))["x"] == [0, 0, 0]


def an_operation(name: str, self_s: float, source: str, flops: float | None = None) -> Operation:
    return Operation(name=name, kind="gemm", self_s=self_s, calls=2.0, source=source, flops=flops)


def test_operations_lie_below_their_line_and_lines_below_their_file() -> None:
    operations = (
        an_operation("aten::mm", 0.030, "net/model.py:10", 6e12),
        an_operation("aten::add", 0.010, "net/model.py:10"),
        an_operation("fused<0>", 0.020, "net/model.py:12, net/model.py:14"),
        an_operation("aten::mm", 0.025, "net/loss.py:3"),
        an_operation("adamw", 0.005, ""),
    )
    trace = read(figures.line_times(a_profile(0.1, operations=operations), 1e15))
    whole = {"model.py": 60, "loss.py": 25, "other operations": 10, "line not known": 5}
    assert below(trace, "step") == pytest.approx(whole)
    assert below(trace, "model.py") == pytest.approx({"line 10": 40, "line 12, 14": 20})
    assert below(trace, "line 10") == pytest.approx({"aten::mm": 30, "aten::add": 10})
    assert below(trace, "line 12, 14") == pytest.approx({"fused&lt;0&gt;": 20})
    assert below(trace, "line not known") == pytest.approx({"adamw": 5})
    assert by_label(trace, trace["marker"]["color"])["line 10"] == pytest.approx(15)
    texts = dict(zip(trace["ids"], trace["customdata"], strict=True))
    text = texts["aten::mm net/model.py:10"].replace("\u00a0", " ")
    assert "30 ms, 30.0 % of the step" in text
    assert "arithmetic 20 % of the device's peak" in text
    assert "arithmetic not counted" in texts["net/loss.py:3"]


def test_a_profile_whose_operations_are_longer_than_its_kinds_is_drawn_to_their_length() -> None:
    longer = a_profile(0.0, {}, operations=(an_operation("aten::mm", 0.002, "a.py:1"),))
    assert below(read(figures.line_times(longer)), "step") == {"a.py": 2}


def test_a_terminal_names_the_odd_module_as_well() -> None:
    layers = a_transformer(0.001, twice="blocks.3")
    profile = a_profile(0.5).model_copy(update={"layers": layers})
    sink = io.StringIO()
    result_panel.show(a_result(profiled(profile)), Console(file=sink, width=160))
    assert "blocks.3 takes 2.0 times as long as its 11 siblings" in sink.getvalue()
