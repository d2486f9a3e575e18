"""Work is joined to the eager step's calls: its lines, its FLOPs and bytes, also where fused."""

import pytest
from builders.traces import Event, kernel, launch, span, step

from benchmarks.contracts import Operation, Profile
from benchmarks.measure.profile import memory_formats, origins, reading, timeline
from benchmarks.measure.profile.origins import AT, Call, Origins

ENGINE = "autograd::engine::evaluate_function"
GELU = "triton_poi_fused__unsafe_view_gelu_gelu_backward_view_4"
CALLS = {
    0: Call("aten.mm", "a.py:1", "bf16", 2e9, 3e6),
    1: Call("aten.mm", "b.py:2", "bf16", 4e9, 5e6),
    2: Call("aten.gelu", "b.py:3", "bf16", 0.0, 8e6),
    3: Call("aten.view", "a.py:1"),
}


def asked(number: int, at: float, operator: str, length: float, name: str) -> list[Event]:
    """An annotated call that launches one kernel."""
    return [
        span("user_annotation", f"{AT}{number}", at, 30.0),
        span("cpu_op", operator, at + 2, 20.0),
        launch(1000 + number, at + 5),
        kernel(1000 + number, at + 10, length, name),
    ]


EAGER = [
    *asked(0, 0.0, "aten::mm", 10.0, "nvjet_a"),
    *asked(1, 100.0, "aten::mm", 30.0, "nvjet_b"),
    *asked(2, 200.0, "aten::gelu", 20.0, "elementwise"),
]


def known(calls: dict[int, Call] | None = None) -> Origins:
    return origins.joined(calls or CALLS, origins.by_call(timeline.read(EAGER)))


def of_steps(*events: Event) -> Profile:
    """The profile of two steps that each hold ``events``, with the eager step's origins."""
    both = [step(number, 1_000.0 * number, 1_000.0) for number in range(2)]
    for number in range(2):
        for event in events:
            moved = {**event, "ts": event["ts"] + 1_000.0 * number, "args": dict(event["args"])}
            if "correlation" in moved["args"]:
                moved["args"]["correlation"] += 10_000 * number
            both.append(moved)
    return reading.read(timeline.read(both), known())


def by_line(profile: Profile) -> dict[str, Operation]:
    return {one.source: one for one in profile.operations}


def test_an_operation_has_the_demands_of_its_calls_by_line() -> None:
    lines = by_line(of_steps(*EAGER))
    assert lines["a.py:1"].flops == pytest.approx(2e9)
    assert lines["a.py:1"].moved_b == pytest.approx(3e6)
    assert lines["b.py:2"].self_s == pytest.approx(30e-6)
    assert (lines["b.py:2"].flops, lines["b.py:2"].arithmetic) == (4e9, "bf16")
    assert (lines["b.py:3"].flops, lines["b.py:3"].moved_b) == (0.0, 8e6)
    assert {one.found_by for one in lines.values()} == {"operator"}


def test_demands_are_left_out_where_the_step_makes_another_number_of_calls() -> None:
    lines = by_line(of_steps(*EAGER[:4]))
    assert lines["a.py:1"].self_s == pytest.approx(2.5e-6), "a quarter, as in the eager step"
    assert (lines["a.py:1"].flops, lines["a.py:1"].moved_b) == (None, None)


def test_a_kernel_of_a_graph_is_found_by_the_same_kernel_of_the_eager_step() -> None:
    replay = [launch(7, 10.0, "cudaGraphLaunch"), kernel(7, 20.0, 40.0, "nvjet_b")]
    (one,) = of_steps(*replay).operations
    assert (one.name, one.source, one.found_by) == ("nvjet_b", "b.py:2", "kernel")
    assert one.flops == pytest.approx(4e9)


def test_a_fused_kernel_is_found_by_the_operator_with_the_fewest_lines() -> None:
    calls = CALLS | {n: Call("aten._unsafe_view", f"c.py:{n}") for n in range(10, 15)}
    replay = [launch(7, 10.0), kernel(7, 20.0, 40.0, GELU)]
    (one,) = of_steps(*replay).operations
    assert (one.source, one.found_by, one.flops) == ("a.py:1", "inductor", None)
    without_view = {number: call for number, call in calls.items() if number != 3}
    assert known(without_view).of_generated(GELU) == "b.py:3"
    only_views = {number: call for number, call in calls.items() if number >= 10}
    assert known(only_views).of_generated(GELU) == "", "five lines tell nothing"


def test_the_operators_in_a_name_that_inductor_gave() -> None:
    names = [
        "gelu",
        "gelu_backward",
        "_unsafe_view",
        "view",
        "add",
        "native_layer_norm",
        "_to_copy",
    ]
    assert origins.fused(GELU, names) == ("_unsafe_view", "gelu", "gelu_backward", "view")
    norm = "triton_per_fused__to_copy_add_native_layer_norm_7"
    assert origins.fused(norm, names) == ("_to_copy", "add", "native_layer_norm")
    assert origins.fused("cpp_fused_add_0", names) == ("add",)
    assert origins.fused("nvjet_sm90_tst_192x192_64x4", names) == ()
    assert origins.fused("triton_poi_fused_other_1", []) == ()


def test_the_demands_of_a_call_are_not_put_down_to_a_copy_that_it_makes_first() -> None:
    events = [
        span("user_annotation", f"{AT}0", 0.0, 90.0),
        span("cpu_op", "aten::_convolution", 1.0, 80.0),
        span("cpu_op", "aten::contiguous", 2.0, 30.0),
        span("cpu_op", "aten::copy_", 3.0, 20.0),
        launch(1, 5.0),
        kernel(1, 10.0, 60.0, "copy_kernel"),
        span("cpu_op", "aten::cudnn_convolution", 40.0, 30.0),
        launch(2, 45.0),
        kernel(2, 80.0, 30.0, "fprop"),
    ]
    calls = {0: Call("aten.convolution", "u.py:9", "bf16", 6e9, 7e6)}
    work = origins.by_call(timeline.read(events))
    parts = origins.joined(calls, work).parts
    assert parts["aten::cudnn_convolution"][0].flops == 6e9
    assert parts["aten::copy_"][0].flops == parts["aten::copy_"][0].moved_b == 0
    (copy,) = memory_formats.copies(calls, work)
    assert (copy.kind, copy.calls, copy.source) == ("memory_format", 1, "u.py:9")
    assert copy.self_s == pytest.approx(60e-6)
    assert copy.what == "convolution needs its input in another memory format"


@pytest.mark.parametrize(
    ("around", "operator"),
    [
        (
            "autograd::engine::evaluate_function: NativeGroupNormBackward0",
            "NativeGroupNormBackward0",
        ),
        (f"{ENGINE}: MineBackward", ""),
        ("loss", ""),
        (f"{AT}3", ""),
    ],
)
def test_a_contiguous_that_the_measured_code_asked_for_is_none_of_an_operator(
    around: str, operator: str
) -> None:
    events = [
        span("user_annotation", around, 0.0, 90.0),
        span("cpu_op", "aten::contiguous", 2.0, 80.0),
        span("user_annotation", f"{AT}5", 3.0, 70.0),
        span("cpu_op", "aten::clone", 4.0, 60.0),
        span("cpu_op", "aten::copy_", 5.0, 40.0),
        launch(1, 6.0),
        kernel(1, 10.0, 60.0, "copy_kernel"),
    ]
    calls = {5: Call("aten.clone", "u.py:9")}
    found = memory_formats.copies(calls, origins.by_call(timeline.read(events)))
    assert [copy.what.partition(" ")[0] for copy in found] == ([operator] if operator else [])
