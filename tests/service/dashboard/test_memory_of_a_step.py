"""The memory of a step on a run's page: its chart, its peak, its lines."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from builders.profiled import a_profile, profiled
from builders.recorded_memory import a_memory

from benchmarks.contracts import Memory
from cli.output.result_panel import _memory
from service.dashboard import figures
from service.dashboard.runs import at_the_peak
from service.wording import formats

MIB = 2**20


def drawn(memory: Memory | None) -> Any:
    figure = figures.memory(memory, formats.MEMORY)
    assert figure is not None
    return orjson.loads(str(figures.embed(figure)))


def test_categories_are_stacked_and_the_allocators_line_lies_over_them() -> None:
    data = drawn(a_memory())["data"]
    stacked = [(one["name"], one["y"]) for one in data if one.get("stackgroup") == "alive"]
    assert stacked == [
        ("parameters and buffers", [10.0, 10.0, 10.0]),  # below, though stored behind
        ("activations", [0.0, 30.0, 0.0]),
    ]
    line = next(one for one in data if one["name"] == "held by the allocator")
    assert (line["y"], "stackgroup" in line) == ([64.0, 64.0, 64.0], False)
    assert line["x"] == [0.0, 5.0, 10.0]


def test_the_peak_and_the_phases_are_marked_where_they_are() -> None:
    chart = drawn(a_memory())
    peak = next(one for one in chart["data"] if one["name"] == "peak")
    assert (peak["x"], peak["y"]) == ([5.0], [40.0])
    assert [(one["text"], one["x"]) for one in chart["layout"]["annotations"]] == [
        ("forward", 1.0),
        ("backward", 5.0),
        ("optimizer", 9.0),
    ]
    assert "MiB" in chart["layout"]["yaxis"]["title"]["text"]
    assert ", ms" in chart["layout"]["xaxis"]["title"]["text"]


def test_every_category_has_a_name_and_a_colour_of_its_own() -> None:
    from benchmarks.measure.profile.replay import CATEGORIES

    assert tuple(figures.COLOURS) == CATEGORIES
    assert set(formats.MEMORY) == set(CATEGORIES)
    assert len({*figures.COLOURS.values(), figures.OTHER}) == len(CATEGORIES) + 1


@pytest.mark.parametrize("at_s", [(), (0.0,), (0.0, 0.0)])
def test_a_step_without_events_has_no_chart(at_s: tuple[float, ...]) -> None:
    curve = (1,) * len(at_s)
    still = a_memory().model_copy(update={"at_s": at_s, "alive_b": {"graphs": curve}})
    assert figures.memory(still.model_copy(update={"held_b": curve}), formats.MEMORY) is None
    assert figures.memory(None, formats.MEMORY) is None


def test_a_curve_needs_a_value_for_each_instant() -> None:
    document = a_memory().model_dump()
    with pytest.raises(ValueError, match="one value for each instant"):
        Memory.model_validate(document | {"held_b": (1,)})
    assert Memory.model_validate(document) == a_memory()


def test_a_terminal_tells_the_peak_and_the_lines_that_hold_most() -> None:
    rows = list(_memory(a_memory()))
    assert rows[0][1].replace(formats.NBSP, " ") == (
        "40 MiB of 1 GiB at the peak: 30 MiB activations, 10 MiB parameters and buffers"
    )
    assert rows[1:] == [("holds", "30\u00a0MiB of activations at model.py:7")]


def test_the_peak_is_told_by_category_the_largest_first() -> None:
    from builders.measured import a_result

    replicate = profiled(a_profile(0.09).model_copy(update={"memory": a_memory()}))
    told = [(one.title, one.size_b, one.part) for one in at_the_peak(a_result(replicate))]
    assert told == [
        ("activations", 30 * MIB, 0.75),
        ("parameters and buffers", 10 * MIB, 0.25),
    ]
    assert at_the_peak(a_result(profiled(a_profile(0.09)))) == []


def test_the_page_takes_the_memory_of_the_first_process() -> None:
    from builders.measured import a_result

    replicate = profiled(a_profile(0.09).model_copy(update={"memory": a_memory()}))
    assert a_result(replicate).profile.memory == a_memory()
