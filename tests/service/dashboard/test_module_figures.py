"""The icicle of a step's modules: its widths are times, its colours rates or changes."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest
from builders.measured import a_result
from builders.profiled import a_layer, a_profile, a_transformer, profiled

from benchmarks.contracts import Layers
from cli.output import result_panel
from cli.output.console import Console
from service.dashboard import figures


def read(figure: figures.Figure) -> dict[str, Any]:
    """The chart's one trace, as the browser parses it."""
    (trace,) = orjson.loads(str(figures.embed(figure)))["data"]
    assert isinstance(trace, dict)
    return trace


def by_label(trace: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    return dict(zip(trace["labels"], values, strict=True))


def test_widths_are_own_times_and_add_up_to_the_step() -> None:
    trace = read(figures.module_times(a_transformer(1.0)))
    assert sum(trace["values"]) == pytest.approx(500)
    parents = dict(zip(trace["ids"], trace["parents"], strict=True))
    names = dict(zip(trace["ids"], trace["labels"], strict=True))
    of_seven = next(place for place, name in names.items() if name == "blocks.7")
    assert [names[place] for place, parent in parents.items() if parent == of_seven] == [
        "norm",
        "attn",
        "mlp",
    ]
    assert by_label(trace, trace["parents"])["loss, optimizer"] == trace["ids"][0]


def test_colours_are_the_share_of_the_devices_peak_where_it_is_known() -> None:
    trace = read(figures.module_times(a_transformer(1.0), peak_flop_per_s=4e9))
    colours = by_label(trace, trace["marker"]["colors"])
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
    colours = by_label(trace, trace["marker"]["colors"])
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
    assert len(set(trace["ids"])) == len(names) + 2
    assert "&lt;b&gt;x&lt;/b&gt;" in trace["labels"]
    assert not any("<i>" in text for text in trace["customdata"])


def test_a_step_without_any_time_is_drawn_all_the_same() -> None:
    idle = Layers(of="step", steps=3, outside_s=0.0, modules=(a_layer("a", "A", 0.0),))
    assert read(figures.module_times(idle))["values"] == [0, 0, 0]
    assert read(figures.module_changes(idle, idle))["values"] == [0, 0, 0]


def test_a_terminal_names_the_odd_module_as_well() -> None:
    layers = a_transformer(0.001, twice="blocks.3")
    profile = a_profile(0.5).model_copy(update={"layers": layers})
    sink = io.StringIO()
    result_panel.show(a_result(profiled(profile)), Console(file=sink, width=160))
    assert "blocks.3 takes 2.0 times as long as its 11 siblings" in sink.getvalue()
