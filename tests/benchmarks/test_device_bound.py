"""What of the device is the limit: computed evidence, until recordings say more (see truths)."""

import pytest
from builders.measured import a_pass, a_replicate
from builders.profiled import COMPUTE, H200, MEMORY, MIXED, a_demand, a_profile, profiled

from benchmarks.contracts import (
    Bottleneck,
    Compilation,
    NeedlessCopy,
    Operation,
    Profile,
    Replicate,
    Synchronization,
)
from benchmarks.diagnosis.conclude import ceilings
from benchmarks.diagnosis.disturbances import THROTTLED
from benchmarks.diagnosis.roofline import Ceilings, roofline
from benchmarks.diagnosis.verdict import HOST_SYNC, diagnose

MATRIX = {"gemm": 0.08, "pointwise": 0.015}
POINTWISE = {"norm": 0.06, "pointwise": 0.03, "gemm": 0.005}


def busy_host(profile: Profile, drained: float = 0.9) -> Replicate:
    return profiled(profile, a_pass(0.1, enqueue_s=0.095, drained=drained))


def test_a_step_of_matrix_products_at_their_peak_is_limited_by_arithmetic() -> None:
    verdict = diagnose((profiled(a_profile(0.098, MATRIX, COMPUTE)),), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.COMPUTE, "high")
    assert verdict.evidence["busy"] == pytest.approx(0.98)
    assert verdict.bounds["at_roofline"] == pytest.approx(1.0, abs=0.01)


def test_a_step_of_norms_and_activations_is_limited_by_memory() -> None:
    verdict = diagnose((profiled(a_profile(0.098, POINTWISE, MEMORY)),), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.MEMORY, "high")
    assert "matrix products take 5% of the kernels' time" in verdict.sentence


def test_a_step_that_fusion_would_make_another_is_mixed() -> None:
    verdict = diagnose((profiled(a_profile(0.098, MATRIX, MIXED)),), H200)
    assert verdict.bottleneck is Bottleneck.MIXED
    assert verdict.evidence["memory_share"] == pytest.approx(0.467 / (0.467 + 0.499), abs=0.02)
    assert verdict.evidence["memory_share_fused"] == 0.0


def test_kernels_that_contradict_the_roofline_lower_the_confidence() -> None:
    verdict = diagnose((profiled(a_profile(0.098, POINTWISE, COMPUTE)),), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.COMPUTE, "low")


@pytest.mark.parametrize("ceilings", [None, Ceilings(4e12, {"fp32": 51e12})])
def test_a_device_whose_peaks_are_not_known_is_neither_compute_nor_memory(
    ceilings: Ceilings | None,
) -> None:
    verdict = diagnose((profiled(a_profile(0.098, MATRIX, COMPUTE)),), ceilings)
    assert verdict.bottleneck is Bottleneck.DEVICE
    assert "at_roofline" not in verdict.bounds


def test_an_idle_device_and_a_busy_host_are_overhead_with_the_bound_without_gaps() -> None:
    verdict = diagnose((busy_host(a_profile(0.040, MATRIX, COMPUTE)),), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.OVERHEAD, "high")
    assert verdict.bounds["without_launch_gaps"] == pytest.approx(2.5)
    assert "480 launches" in verdict.sentence


def test_a_wait_inside_the_step_is_named_with_its_line() -> None:
    wait = Synchronization(what=".item()", source="mypkg/model.py:7", calls=2)
    verdict = diagnose((busy_host(a_profile(0.040, MATRIX, waits=[wait])),), H200)
    assert verdict.sentence == (
        "In each step the host waits for the device 2 times at mypkg/model.py:7 (.item()). "
        "The device works 40% of the step. Without the gaps, x2.50."
    )
    others = [wait, wait.model_copy(update={"source": "mypkg/loss.py:3", "calls": 1})]
    verdict = diagnose((busy_host(a_profile(0.040, MATRIX, waits=others)),), H200)
    assert "2 times at mypkg/model.py:7 (.item()), and at 1 other line." in verdict.sentence


@pytest.mark.parametrize("noise", [0.001, 0.02])
def test_the_larger_bound_wins_between_host_and_loader(noise: float) -> None:
    """48 waits left a device idle for 74 % of the step, and the loader took 7 % besides."""
    synth = a_pass(0.1, enqueue_s=0.098, drained=1.0, noise=noise)
    wait = Synchronization(what=".item()", source="model.py:114", calls=48)
    profile = a_profile(0.026, MATRIX, waits=[wait])
    for full_s, limit in ((0.1075, Bottleneck.OVERHEAD), (0.5, Bottleneck.INPUT)):
        full = a_pass(full_s, stall_s=full_s - 0.1, noise=noise)
        replicate = a_replicate(full, synth).model_copy(update={"profile": profile})
        verdict = diagnose((replicate,), H200)
        assert verdict.bottleneck is limit
        named = "48 times at model.py:114" in verdict.sentence
        assert named == (limit is Bottleneck.OVERHEAD)


def test_a_device_that_is_idle_is_never_said_to_work_without_waiting() -> None:
    verdict = diagnose((profiled(a_profile(0.068, MATRIX)),))
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.MIXED, "low")
    assert "works 68% of the step" in verdict.sentence


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("aten::_cudnn_attention_backward", "cudnn"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16", "cudnn"),
        ("aten::_flash_attention_forward", "flash"),
        ("aten::_efficient_attention_backward", "efficient"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "efficient"),
        ("triton_tem_fused_flex_attention_0", "flex"),
        ("aten::_scaled_dot_product_attention_math", "math"),
    ],
)
def test_the_evidence_tells_which_kernel_computes_attention(name: str, kernel: str) -> None:
    seen = Operation(name=name, kind="attention", self_s=0.03, calls=12.0)
    other = Operation(name="odd", kind="attention", self_s=0.01, calls=1.0)
    profile = a_profile(0.098, MATRIX, COMPUTE, operations=[seen, other])
    evidence = diagnose((profiled(profile),), H200).evidence
    assert evidence[f"attention_{kernel}"] == pytest.approx(1.0 if kernel == "math" else 0.75)


def test_a_busy_device_is_not_overhead_however_often_it_ran_dry_at_a_steps_start() -> None:
    verdict = diagnose((busy_host(a_profile(0.097, MATRIX, COMPUTE)),), H200)
    assert verdict.bottleneck is Bottleneck.COMPUTE


def test_a_graph_of_short_kernels_is_not_overhead() -> None:
    """The host queues one graph in no time; what is idle lies between the kernels."""
    graphed = profiled(a_profile(0.06, MATRIX, COMPUTE), a_pass(0.1, enqueue_s=0.01, drained=0.9))
    verdict = diagnose((graphed,), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.MIXED, "low")


@pytest.mark.parametrize("busy_s", [0.098, 0.06])
def test_kernels_too_small_to_fill_the_device_are_a_limit_of_their_own(busy_s: float) -> None:
    """A recurrent net as one graph had been told to be limited by memory, at 0.2 % of its rates."""
    demands = [a_demand(0.0, 0.01 * busy_s * 4.28e12)]
    profile = a_profile(busy_s, MATRIX, demands, small_s=0.09)
    graphed = profiled(profile, a_pass(0.1, enqueue_s=0.01, drained=0.0))
    verdict = diagnose((graphed,), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.LATENCY, "high")
    assert "1.0% of its own rates" in verdict.sentence
    assert "larger batch" in verdict.suggestions[0].sentence


def test_small_kernels_that_reach_the_devices_rates_are_no_limit() -> None:
    profile = a_profile(0.098, MATRIX, COMPUTE, small_s=0.09)
    assert diagnose((profiled(profile),), H200).bottleneck is Bottleneck.COMPUTE
    assert diagnose((profiled(profile),), None).bottleneck is Bottleneck.DEVICE


def test_a_busy_device_far_from_its_rates_is_neither_arithmetic_nor_bandwidth() -> None:
    profile = a_profile(0.098, MATRIX, [a_demand(0.0, 0.05 * 0.098 * 4.28e12)], small_s=0.0)
    verdict = diagnose((profiled(profile),), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.MIXED, "low")
    assert "reaches 5% of its own rates" in verdict.sentence


def test_a_wait_that_has_a_line_is_the_first_suggestion() -> None:
    waits = [Synchronization(what=".item()", source="model.py:114", calls=48)]
    waits.append(Synchronization(what=".cpu()", source="model.py:9", calls=2))
    verdict = diagnose((busy_host(a_profile(0.026, MATRIX, waits=waits)),), H200)
    assert verdict.suggestions[0].axis is None
    assert verdict.suggestions[0].sentence == (
        "model.py:114 makes the host wait for the device 48 times a step (.item()), and the device "
        "is idle for 74% of it: without waits up to x3.85."
    )
    busy = diagnose((busy_host(a_profile(0.098, MATRIX, waits=waits)),), H200)
    assert busy.suggestions == (), "the waits cost nothing"


def test_a_step_that_asks_the_driver_for_memory_says_so() -> None:
    verdict = diagnose((busy_host(a_profile(0.04, MATRIX, allocations=4.0)),), H200)
    assert verdict.bottleneck is Bottleneck.OVERHEAD
    assert "gives it back 4 times" in verdict.sentence
    assert "empty_cache" in verdict.suggestions[0].sentence


def test_a_compiler_at_work_in_the_steps_is_the_limit_however_noisy_they_are() -> None:
    noisy = a_pass(0.1, noise=0.6).model_copy(update={"compile_s": 4.0})
    again = Compilation(graphs=9, recompiles={"mode ==  'a'": 3, "size": 5})
    replicate = profiled(a_profile(0.02, MATRIX), noisy)
    verdict = diagnose((replicate.model_copy(update={"compilation": again}),), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.OVERHEAD, "high")
    assert "80% of the step" in verdict.sentence
    assert "8 times, for example because this did not hold: size." in verdict.sentence
    assert "up to x5.00" in verdict.suggestions[0].sentence
    quiet = a_pass(0.1).model_copy(update={"compile_s": 0.0})
    assert "compiler" not in diagnose((profiled(a_profile(0.098), quiet),), H200).sentence


def suggested(
    profile: Profile, noise: float = 0.001, compilation: Compilation | None = None
) -> list[str]:
    replicate = profiled(profile, a_pass(0.1, noise=noise))
    replicate = replicate.model_copy(update={"compilation": compilation})
    return [one.sentence for one in diagnose((replicate,), H200).suggestions]


def test_what_is_wasted_is_suggested_with_line_and_seconds_the_largest_first() -> None:
    copy = NeedlessCopy(
        kind="clone", what="a clone", source="net.py:9", calls=3, moved_b=8.0, self_s=0.004
    )
    waits = [
        Synchronization(what=".item()", source="net.py:12", every=10, cost_s=0.006),
        Synchronization(what=".item()", source="net.py:13", every=50),
    ]
    profile = a_profile(0.098, MATRIX, waits=waits, copies=[copy])
    assert suggested(profile) == [
        "Log less often, or tensors that are read later: net.py:12 makes the host wait every 10 "
        "steps (.item()), which with what belongs to it costs 6 ms of each step, 6.0% of it.",
        "Use the value itself: net.py:9 copies 3 times a step (a clone), which takes 4 ms of the "
        "device, 4.0% of a step.",
    ]
    (only,) = suggested(profile, noise=0.035)
    assert "net.py:12" in only, "the noise of both passes is 5 %, more than the copies cost"


def test_a_wait_every_few_steps_is_not_said_to_come_in_each() -> None:
    wait = Synchronization(what=".item()", source="net.py:12", every=10, cost_s=0.0)
    verdict = diagnose((busy_host(a_profile(0.040, MATRIX, waits=[wait])),), H200)
    assert "net.py:12" not in verdict.sentence
    assert verdict.suggestions == ()


def test_a_compiler_that_works_a_little_is_named_with_its_guard_and_its_seconds() -> None:
    again = Compilation(graphs=9, recompiles={"size mismatch at net.py:4": 3, "else": 1})
    timed = a_pass(0.1).model_copy(update={"compile_s": 0.2})
    replicate = profiled(a_profile(0.098, MATRIX), timed)
    verdict = diagnose((replicate.model_copy(update={"compilation": again}),), H200)
    assert verdict.suggestions[0].sentence == (
        "Keep fixed what the compiler guards, or compile with dynamic=True: it compiled anew 4 "
        "times, as for size mismatch at net.py:4; compiling takes 4 ms of each step; without it up "
        "to x1.04."
    )


def test_a_broken_graph_is_named_with_its_line_where_the_device_waits_for_the_host() -> None:
    broken = Compilation(graphs=3, breaks={"print at net.py:4": 2, "else": 1})
    idle = busy_host(a_profile(0.040, MATRIX)).model_copy(update={"compilation": broken})
    assert diagnose((idle,), H200).suggestions[0].sentence == (
        "Let the compiler see the step whole: it broke it 3 times, most often because of: print at "
        "net.py:4. What that costs is not known."
    )
    assert suggested(a_profile(0.098, MATRIX), compilation=broken) == []


def test_a_broken_graph_tells_what_the_device_does_and_awaits_outside_of_its_graphs() -> None:
    seen = {"uncaptured_s": 0.02, "uncaptured_host_s": 0.07, "uncaptured_idle_s": 0.03}
    broken = Compilation(graphs=3, breaks={"print at net.py:4": 2})
    idle = busy_host(a_profile(0.040, MATRIX).model_copy(update={**seen, "step_s": 0.1}))
    idle = idle.model_copy(update={"compilation": broken})
    assert diagnose((idle,), H200).suggestions[0].sentence == (
        "Let the compiler see the step whole: it broke it 2 times, most often because of: print at "
        "net.py:4. Outside of its graphs the device works 20 ms of each step (20.0%), eagerly, and "
        "waits 30 ms (30.0%) for the host."
    )


def test_time_that_a_full_queue_holds_the_host_is_not_time_that_it_needs() -> None:
    held = a_pass(0.1, enqueue_s=0.099, drained=0.0)
    profile = a_profile(0.08, MATRIX)
    assert diagnose((profiled(profile, held),), H200).bottleneck is Bottleneck.OVERHEAD
    free = held.model_copy(update={"host_s": 0.02})
    verdict = diagnose((profiled(profile, free),), H200)
    assert verdict.bottleneck is not Bottleneck.OVERHEAD
    assert verdict.evidence["enqueue"] == pytest.approx(0.2)


def test_work_of_the_host_in_some_steps_is_work_that_it_needs() -> None:
    """A step that logs every tenth time: an ordinary one tells nothing of that."""
    some = a_pass(0.1, enqueue_s=0.097, drained=0.1)
    some = some.model_copy(update={"host_s": 0.005, "p50_s": 0.01})
    verdict = diagnose((profiled(a_profile(0.024, MATRIX), some),), H200)
    assert verdict.bottleneck is Bottleneck.OVERHEAD


def test_a_throttled_device_is_said_to_be_one() -> None:
    replicate = profiled(a_profile(0.098, MATRIX, COMPUTE))
    throttled = replicate.model_copy(update={"flags": (THROTTLED,)})
    assert "held its clock back" not in diagnose((replicate,), H200).sentence
    assert "held its clock back" in diagnose((throttled,), H200).sentence


def test_a_device_is_held_against_what_its_own_canary_reached() -> None:
    """An L40S is in no table of peaks; its canary tells all that a verdict needs."""
    facts = {"hw.device": "cuda", "hw.gpu.name": "NVIDIA L40S", "hw.gpu.sm_count": "142"}
    assert ceilings(facts, {}) is None
    own = ceilings(facts, {"gemm_flop_s": 180e12, "copy_b_s": 0.6e12})
    assert own == Ceilings(0.6e12, {"bf16": 180e12})
    assert ceilings({"hw.device": "cpu"}, {"gemm_flop_s": 1e12, "copy_b_s": 1e10}) is None
    h200 = {"hw.device": "cuda", "hw.gpu.name": "NVIDIA H200", "hw.gpu.sm_count": "132"}
    mixed = ceilings(h200, {"gemm_flop_s": 700e12})
    assert mixed is not None
    assert mixed.flop_per_s["bf16"] == 700e12
    assert mixed.flop_per_s["fp32"] == 51e12


def test_a_scaler_that_waits_makes_overhead_uncertain_and_no_longer_unknown() -> None:
    timed = a_pass(0.1, enqueue_s=0.099, drained=1.0)
    flagged = {"flags": (HOST_SYNC,)}
    idle = profiled(a_profile(0.04, MATRIX), timed).model_copy(update=flagged)
    busy = profiled(a_profile(0.098, MATRIX, COMPUTE), timed).model_copy(update=flagged)
    verdict = diagnose((idle,), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.OVERHEAD, "low")
    assert diagnose((busy,), H200).bottleneck is Bottleneck.COMPUTE


def test_communication_that_nothing_hides_is_named() -> None:
    verdict = diagnose((profiled(a_profile(0.098, MATRIX, COMPUTE, exposed_s=0.02)),), H200)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.COMMUNICATION, "high")
    assert "20% of the step" in verdict.sentence


def test_the_loader_is_judged_before_the_device() -> None:
    full, synth = a_pass(0.2, stall_s=0.1), a_pass(0.1)
    profile = a_profile(0.098, MATRIX, COMPUTE)
    replicate = a_replicate(full, synth).model_copy(update={"profile": profile})
    verdict = diagnose((replicate,), H200)
    assert verdict.bottleneck is Bottleneck.INPUT
    assert verdict.bounds["at_roofline"] == pytest.approx(1.0, abs=0.01)


def test_a_profile_that_is_absent_changes_nothing() -> None:
    absent = Profile(absent="The driver recorded no kernel.")
    verdict = diagnose((profiled(absent),), H200)
    assert verdict.bottleneck is Bottleneck.DEVICE
    assert "busy" not in verdict.evidence


def test_a_step_of_nothing_but_pointwise_operations_is_memory_fused_or_not() -> None:
    limits = roofline([a_demand(0.0, 428e9, fusable=True)], H200)
    assert limits is not None
    assert (limits.memory_share, limits.memory_share_fused) == (1.0, 1.0)
    assert limits.roof_s == limits.fused_s == pytest.approx(0.1)


def test_a_step_that_asks_for_nothing_has_no_roofline() -> None:
    assert roofline([], H200) is None
