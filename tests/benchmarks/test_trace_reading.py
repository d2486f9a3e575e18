"""A trace is read as it is: busy once however many streams, idle by its cause, work by its line."""

import itertools
import json
from pathlib import Path

import pytest
from builders.traces import Event, kernel, launch, span, step
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contracts import Profile
from benchmarks.measure.profile import reading, timeline
from benchmarks.measure.profile.generated import Traffic, traffic
from benchmarks.measure.profile.kinds import kind_of
from benchmarks.measure.profile.origins import Origin, Origins
from benchmarks.measure.profile.reading import Unreadable


def read(*events: Event) -> Profile:
    return reading.read(timeline.read(events))


def steps_of(*kernels_of_step: list[tuple[float, float]], late: float = 5.0) -> list[Event]:
    """Steps of 1,000 us; in each kernels (start, length) that were launched ``late`` us before."""
    events: list[Event] = []
    for number, kernels in enumerate(kernels_of_step):
        at = 1_000.0 * number
        events.append(step(number, at, 1_000.0))
        for place, (start, length) in enumerate(kernels):
            correlation = 100 * number + place
            events.append(launch(correlation, at + start - late))
            events.append(kernel(correlation, at + start, length))
    return events


ONE = [(100.0, 300.0), (410.0, 200.0), (700.0, 100.0)]


def test_figures_are_per_step_over_whole_periods() -> None:
    profile = read(*steps_of(ONE, ONE, ONE))
    assert profile.step_s == pytest.approx(1e-3)
    assert profile.busy_s == pytest.approx(600e-6)
    assert (profile.kernels, profile.launches) == (3, 3)


def test_a_kernel_that_was_launched_after_the_device_had_finished_waited_for_the_host() -> None:
    profile = read(*steps_of(ONE, ONE, late=5.0))
    # Queued at 405 after 400, at 695 after 610, and the next step at 1,095 after 800.
    assert profile.idle_s["host_wait"] == pytest.approx((10 + 90 + 300) * 1e-6)
    assert profile.idle_s["kernel_gap"] == profile.idle_s["other"] == 0


def test_a_short_pause_between_queued_kernels_is_the_devices_own() -> None:
    profile = read(*steps_of(ONE, ONE, late=99.0))
    assert profile.idle_s["kernel_gap"] == pytest.approx(10e-6)


def test_a_long_pause_between_queued_kernels_has_another_cause() -> None:
    far = [(500.0, 100.0), (700.0, 100.0)]
    profile = read(*steps_of(far, far, late=400.0))
    assert profile.idle_s["other"] >= 100e-6


def test_kernels_of_few_blocks_or_of_no_length_are_small() -> None:
    sizes = [(100.0, 300.0, 8.0), (410.0, 200.0, 0.03), (700.0, 4.0, 8.0)]
    events = [step(1, 0.0, 1_000.0)]
    for number, (start, length, blocks) in enumerate(sizes):
        events.append(launch(number, start - 5.0))
        events.append(kernel(number, start, length, blocks_per_sm=blocks))
    assert read(*events).small_s == pytest.approx(204e-6)
    assert read(*steps_of(ONE, ONE)).small_s is None, "this trace tells no sizes"


def test_two_streams_that_work_at_once_are_busy_once() -> None:
    events = steps_of(ONE, ONE)
    events += [launch(901, 90.0), kernel(901, 100.0, 300.0, "ncclAllReduce", stream=20)]
    profile = read(*events)
    assert profile.busy_s == pytest.approx(600e-6)
    assert profile.exposed_communication_s == 0


def test_communication_is_exposed_where_nothing_else_runs() -> None:
    events = steps_of(ONE, ONE)
    events += [launch(901, 90.0), kernel(901, 350.0, 400.0, "ncclAllReduce", stream=20)]
    profile = read(*events)
    # 350 to 750, of which 400 to 410 and 610 to 700 are its own.
    assert profile.exposed_communication_s == pytest.approx(100e-6)
    assert profile.seconds["communication"] == pytest.approx(400e-6)


def test_work_is_put_down_to_the_operator_that_launched_it_on_whatever_thread() -> None:
    events = steps_of(ONE, ONE)
    events += [
        span("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 90.0, 40.0, 2),
        span("cpu_op", "aten::mm", 95.0, 20.0, 2),
        launch(900, 100.0, tid=2),
        kernel(900, 810.0, 50.0, "nvjet_tst_128x256"),
    ]
    operations = {operation.name: operation for operation in read(*events).operations}
    assert operations["aten::mm"].kind == "gemm"
    assert operations["aten::mm"].self_s == pytest.approx(50e-6)
    assert operations["sm90_gemm_bf16"].self_s == pytest.approx(600e-6)


def test_what_an_optimizer_launches_is_the_optimizers() -> None:
    events = steps_of(ONE, ONE)
    events += [
        span("user_annotation", "Optimizer.step#AdamW.step", 890.0, 50.0),
        span("cpu_op", "aten::_foreach_add_", 895.0, 20.0),
        launch(900, 900.0),
        kernel(900, 910.0, 50.0, "multi_tensor_apply_kernel"),
    ]
    assert read(*events).seconds["optimizer"] == pytest.approx(50e-6)


def test_a_graph_is_one_launch_of_many_kernels_and_says_that_it_was_one() -> None:
    events: list[Event] = []
    for number in range(3):
        at = 1_000.0 * number
        events += [step(number, at, 1_000.0), launch(number, at + 10, "cudaGraphLaunch")]
        events += [kernel(number, at + 20 + 50 * place, 40.0) for place in range(10)]
    read_in = timeline.read(events)
    profile = reading.read(read_in)
    assert read_in.graphed
    assert (profile.launches, profile.kernels) == (1, 10)
    assert profile.busy_s == pytest.approx(400e-6)


def test_an_operation_is_split_over_the_lines_that_asked_for_it() -> None:
    parts = {"sm90_gemm_bf16": (Origin("a.py:1", 3.0, 1), Origin("b.py:2", 1.0, 1))}
    operations = reading.read(timeline.read(steps_of(ONE, ONE)), Origins(parts)).operations
    assert [operation.source for operation in operations] == ["a.py:1", "b.py:2"]
    assert operations[0].self_s == pytest.approx(450e-6)
    assert operations[0].calls + operations[1].calls == 3


def test_blocks_and_occupancy_are_weighted_by_time_and_no_estimate_is_none() -> None:
    events = [step(1, 0.0, 1_000.0)]
    for number, (length, blocks, occupied) in enumerate(
        [(300.0, 8.0, 50), (100.0, 4.0, 0), (50.0, -1.0, -100)]
    ):
        events.append(launch(number, 100.0 + 300 * number))
        events.append(kernel(number, 105.0 + 300 * number, length, blocks_per_sm=blocks))
        events[-1]["args"]["est. achieved occupancy %"] = occupied
    (operation,) = read(*events).operations
    assert operation.blocks_per_sm == pytest.approx(7.0)
    assert operation.occupancy == pytest.approx(0.5)


def test_on_a_cpu_operators_are_the_work_and_count_without_what_they_call() -> None:
    events: list[Event] = []
    for number in range(2):
        at = 100.0 * number
        events += [
            step(number, at, 100.0),
            span("cpu_op", "aten::linear", at + 10, 60.0),
            span("cpu_op", "aten::addmm", at + 20, 40.0),
        ]
    profile = read(*events)
    assert profile.busy_s == pytest.approx(60e-6)
    assert {o.name: o.self_s for o in profile.operations} == {
        "aten::addmm": pytest.approx(40e-6),
        "aten::linear": pytest.approx(20e-6),
    }
    assert profile.idle_s["host_wait"] == pytest.approx(40e-6)


@pytest.mark.parametrize("events", [[], [step(0, 0.0, 10.0)], [kernel(1, 0.0, 5.0)]])
def test_a_trace_without_steps_or_without_work_is_refused_with_a_sentence(
    events: list[Event],
) -> None:
    with pytest.raises(Unreadable, match="recorded no"):
        read(*events)


def test_kernels_that_no_launch_explains_are_refused_rather_than_taken_for_one_step() -> None:
    orphans = [event for event in steps_of(ONE, ONE) if event["cat"] != "cuda_runtime"]
    with pytest.raises(Unreadable, match="which step"):
        read(*orphans)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50)), max_size=30))
def test_the_union_of_spans_is_what_counting_each_instant_gives(
    pairs: list[tuple[int, int]],
) -> None:
    spans = [(float(start), float(start + length)) for start, length in pairs]
    covered = {at for start, length in pairs for at in range(start, start + length)}
    joined = reading.union(spans)
    assert reading.length(joined) == len(covered)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(joined))


@pytest.mark.parametrize(
    ("kernel_name", "stack", "kind"),
    [
        ("nvjet_hsh_192x192_64x4", ["aten::linear", "aten::addmm"], "gemm"),
        ("ampere_bf16_s16816gemm", [], "gemm"),
        ("sm90_xmma_fprop_implicit_gemm_bf16f16", ["aten::cudnn_convolution"], "conv"),
        ("void cutlass::Kernel2<cutlass_80_wgrad>", [], "conv"),
        ("pytorch_flash::flash_fwd_kernel", ["aten::_flash_attention_forward"], "attention"),
        ("cudnn_bn_fw_tr_1C11_kernel_NCHW", [], "norm"),
        (
            "void cudnn::fusion::convert_dq_to_16bits<true>",
            ["aten::_cudnn_attention_backward"],
            "attention",
        ),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", [], "attention"),
        ("void cudnn::fusion::convert_dq_to_16bits<true>", [], "attention"),  # out of a graph
        ("void cudnn::fusion::compute_dot_do_o<true, 64>", [], "attention"),
        ("void convert_to_channels_last<float>", [], "other"),
        ("vectorized_layer_norm_kernel", ["aten::native_layer_norm"], "norm"),
        ("vectorized_elementwise_kernel", ["aten::relu"], "pointwise"),
        ("distribution_elementwise_normal_kernel", ["aten::normal_"], "pointwise"),
        ("triton_poi_fused_add_relu_3", [], "pointwise"),
        ("triton_red_fused_native_batch_norm_5", [], "norm"),
        ("Memcpy HtoD (Pinned -> Device)", ["aten::copy_"], "memcpy"),
        ("ncclDevKernel_AllReduce_Sum", [], "communication"),
        ("_c10d_functional::wait_tensor", ["aten::mm"], "communication"),
        ("multi_tensor_apply", ["Optimizer.step#SGD.step", "aten::_foreach_add_"], "optimizer"),
        (
            "void at::native::elementwise_kernel<128, 4>",
            ["aten::_convolution", "aten::contiguous", "aten::clone", "aten::copy_"],
            "memcpy",
        ),
        ("something_new", [], "other"),
    ],
)
def test_a_kernel_is_known_by_its_operators_and_by_its_name(
    kernel_name: str, stack: list[str], kind: str
) -> None:
    assert kind_of(kernel_name, stack) == kind


def test_a_recorded_trace_of_a_cpu_is_read_whole() -> None:
    """Two convolution, norm and linear steps as torch 2.13 recorded them."""
    path = Path(__file__).with_name("recorded_trace.json")
    profile = reading.read(timeline.read(json.loads(path.read_text())["traceEvents"]))
    assert {"conv", "norm", "gemm", "optimizer"} <= set(profile.seconds)
    assert profile.busy_s is not None
    assert profile.step_s is not None
    assert 0 < profile.busy_s <= profile.step_s
    assert sum(profile.seconds.values()) == pytest.approx(profile.busy_s, rel=0.02)


def test_what_runs_in_a_compiled_frame_outside_of_its_graphs_is_told() -> None:
    events: list[Event] = []
    for number in range(3):
        at = 1_000.0 * number
        events += [
            step(number, at, 1_000.0),
            span("cpu_op", "Torch-Compiled Region: 0/0", at + 10.0, 400.0),
            span("cpu_op", "Torch-Compiled Region: 1/0", at + 60.0, 340.0),
            span("cpu_op", "## Call CompiledFxGraph f00 ##", at + 20.0, 30.0),
            *(launch(10 * number + 1, at + 25.0), kernel(10 * number + 1, at + 30.0, 100.0)),
            *(launch(10 * number + 2, at + 200.0), kernel(10 * number + 2, at + 210.0, 50.0)),
            *(launch(10 * number + 3, at + 600.0), kernel(10 * number + 3, at + 610.0, 50.0)),
        ]
    profile = read(*events)
    assert profile.uncaptured_s == pytest.approx(50e-6), "not the graph's, not the optimizer's"
    assert profile.uncaptured_host_s == pytest.approx((400.0 - 30.0) * 1e-6)
    # Busy from 30 to 130 and from 210 to 260: of 10 to 20 and 50 to 410 what lies outside.
    idle_us = (210.0 - 130.0) + (410.0 - 260.0) + 10.0
    assert profile.uncaptured_idle_s == pytest.approx(idle_us * 1e-6, abs=6e-6)


def test_a_step_that_nothing_compiled_tells_no_graphs() -> None:
    profile = read(*steps_of(ONE, ONE))
    assert profile.uncaptured_s == 0
    assert profile.uncaptured_host_s is None


def test_a_generated_kernel_moves_what_its_arguments_hold() -> None:
    name = "triton_poi_fused_add_relu_0"
    arguments = {
        "Input type": ["c10::BFloat16", "float", "bool", "Scalar"],
        "Input Dims": [[4, 8], [4, 8], [4, 8], []],
        "Input Strides": [[8, 1], [0, 1], [8, 1], []],
    }
    shaped = [
        span("cpu_op", name, 0.0, 5.0, **{**arguments, "Input Strides": []}),
        span("cpu_op", "triton_tem_fused_mm_1", 0.0, 5.0, **arguments),
    ]
    names = {name: ["in_out_ptr0", "in_ptr0", "out_ptr0", "xnumel", "XBLOCK"]}
    assert traffic(shaped, names) == {}
    called = [span("cpu_op", name, 0.0, 5.0, **arguments)]
    assert traffic(called, names) == {name: Traffic(2 * 32 * 2 + 8 * 4 + 32, "bf16")}
    assert traffic(called, {}) == {}, "nobody knows what it overwrites"


def test_a_generated_kernel_has_the_traffic_of_its_calls() -> None:
    name = "triton_poi_fused_add_0"
    events = [step(1, 0.0, 1_000.0)]
    for number in range(3):
        events += [launch(number, 10.0 * number), kernel(number, 50.0 * number + 5, 10.0, name)]
    profile = reading.read(timeline.read(events), None, {name: Traffic(100.0, "fp32")})
    (operation,) = profile.operations
    assert (operation.flops, operation.moved_b, operation.arithmetic) == (0.0, 300.0, "fp32")
