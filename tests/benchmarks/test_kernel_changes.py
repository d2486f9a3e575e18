"""Two profiles held against each other: new, gone, slower and faster kernels, matched by name."""

import statistics
import time

import pytest
import torch
from builders.measured import a_pass, a_result
from builders.profiled import a_profile, kernels, profiled
from builders.traces import kernel, launch, step
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.contracts import KernelTime, Profile
from benchmarks.contracts.profile import MOST_KERNEL_TIMES
from benchmarks.diagnosis.kernel_changes import KernelChange, changes, figures, missing, of_full
from benchmarks.measure.profile import reading, recording, timeline
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

STEP_S = 0.1
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>, {}>(int, {}, {})"


def profile(*times: KernelTime, **seconds: float) -> Profile:
    ordered = sorted((*times, *kernels(**seconds)), key=lambda time: -time.self_s)
    made = a_profile(0.09).model_copy(update={"kernel_times": tuple(ordered), "step_s": STEP_S})
    return Profile.model_validate(made.model_dump())


def a_kernel(name: str, self_s: float, range_s: float = 0.0) -> KernelTime:
    return KernelTime(name=name, self_s=self_s, range_s=range_s, calls=1.0)


def told(found: list[KernelChange]) -> dict[str, tuple[str, float]]:
    return {one.names[0]: (one.verdict, round(one.seconds, 9)) for one in found}


def test_new_gone_slower_and_faster_kernels_are_named_with_their_seconds() -> None:
    before = profile(gemm=0.04, softmax=0.02, fused_add=0.01, norm=0.005)
    after = profile(gemm=0.05, softmax=0.017, unfused_add=0.015, norm=0.005)
    found = changes(before, after)
    assert [one.names[0] for one in found] == [
        "unfused_add",
        *("gemm", "fused_add"),
        *("softmax", "norm"),
    ]
    assert told(found) == {
        "unfused_add": ("new", 0.015),
        "gemm": ("slower", 0.01),
        "fused_add": ("gone", -0.01),
        "softmax": ("faster", -0.003),
        "norm": ("unchanged", 0.0),
    }


def test_a_difference_within_what_the_steps_differ_is_none() -> None:
    before, after = a_kernel("gemm", 0.040, 0.003), a_kernel("gemm", 0.0449, 0.004)
    assert told(changes(profile(before), profile(after)))["gemm"][0] == "unchanged"
    steadier = a_kernel("gemm", 0.0449, 0.003)
    assert told(changes(profile(before), profile(steadier)))["gemm"][0] == "slower"


def test_a_thousandth_of_the_step_is_not_worth_a_word() -> None:
    before = profile(gemm=0.0400)
    assert told(changes(before, profile(gemm=0.0400 + 0.9e-3 * STEP_S)))["gemm"][0] == "unchanged"
    assert told(changes(before, profile(gemm=0.0400 + 1.1e-3 * STEP_S)))["gemm"][0] == "slower"


def test_a_number_that_a_compiler_counted_tells_no_kernel_from_another() -> None:
    """The third fused addition of yesterday may be today's fifth: their sum is compared."""
    before = profile(triton_poi_fused_add_3=0.01, triton_poi_fused_add_4=0.02)
    after = profile(triton_poi_fused_add_4=0.01, triton_poi_fused_add_7=0.02)
    (one,) = changes(before, after)
    assert (one.verdict, one.seconds) == ("unchanged", 0.0)
    assert one.names == ("triton_poi_fused_add_4", "triton_poi_fused_add_7")
    assert one.earlier == ("triton_poi_fused_add_3", "triton_poi_fused_add_4")


def test_other_fused_work_is_another_kernel() -> None:
    before, after = profile(triton_poi_fused_add_3=0.01), profile(triton_poi_fused_add_relu_3=0.01)
    assert told(changes(before, after)) == {
        "triton_poi_fused_add_3": ("gone", -0.01),
        "triton_poi_fused_add_relu_3": ("new", 0.01),
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            ADD.format("CUDAFunctor_add", *["at::detail::Array<char*, 3>"] * 3),
            ADD.format("CUDAFunctor_add", *["std::array<char*, 3ul>"] * 3),
        ),
        (
            "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_64x4_nn_align8",
            "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x64_64x4_nn_align8",
        ),
        (
            "void softmax_warp_forward<float, float, float, 8, false, false>(float*, int)",
            "void softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 8>(c10::BFloat16*)",
        ),
    ],
)
def test_another_version_tile_or_precision_is_the_same_kernel_and_both_names_are_told(
    before: str, after: str
) -> None:
    (one,) = changes(profile(a_kernel(before, 0.02)), profile(a_kernel(after, 0.03)))
    assert one.verdict == ("unchanged" if before == after else "slower")
    assert (one.names, one.earlier) == ((after,), (before,))
    assert one.seconds == pytest.approx(0.01)


def test_what_an_elementwise_kernel_computes_tells_it_from_another() -> None:
    array = ["std::array<char*, 3ul>"] * 3
    add, mul = ADD.format("CUDAFunctor_add", *array), ADD.format("MulFunctor", *array)
    found = changes(profile(a_kernel(add, 0.02)), profile(a_kernel(mul, 0.02)))
    assert {one.verdict for one in found} == {"new", "gone"}


def test_an_exact_name_is_preferred_to_a_similar_one() -> None:
    before = profile(gemm_128x128=0.02)
    after = profile(gemm_128x128=0.02, gemm_256x64=0.03)
    assert told(changes(before, after)) == {
        "gemm_256x64": ("new", 0.03),
        "gemm_128x128": ("unchanged", 0.0),
    }


def test_a_kernel_that_the_other_profile_had_no_room_for_is_neither_new_nor_gone() -> None:
    names = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(MOST_KERNEL_TIMES)]
    full = profile(**dict.fromkeys(names, 1e-3))
    small, large = profile(zz=0.9e-3), profile(zz=1.1e-3)
    assert "zz" not in told(changes(full, small))
    assert told(changes(full, large))["zz"] == ("new", 1.1e-3)
    assert told(changes(large, full))["zz"] == ("gone", -1.1e-3)


def test_idle_time_by_cause_and_launches_are_told_before_and_after() -> None:
    before = profile(gemm=0.04).model_copy(update={"idle_s": {"host_wait": 0.01}, "launches": 9.0})
    after = profile(gemm=0.04).model_copy(
        update={"idle_s": {"host_wait": 0.03, "other": 0.001}, "launches": 19.0}
    )
    found = {one.name: (one.baseline, one.contender) for one in figures(before, after)}
    assert found["host_wait"] == (0.01, 0.03)
    assert found["other"] == (None, 0.001)
    assert found["launches"] == (9.0, 19.0)
    assert found["busy"] == (0.09, 0.09)


def test_a_loader_that_became_slow_is_told_in_full_where_no_kernel_changed() -> None:
    kept = profile(gemm=0.04)
    before, after = (
        a_result(profiled(kept, a_pass(step_s, stall_s=stall_s)))
        for step_s, stall_s in ((0.1, 0.001), (0.15, 0.051))
    )
    assert {one.verdict for one in changes(before.profile, after.profile)} == {"unchanged"}
    found = {one.name: (one.baseline, one.contender) for one in of_full(before, after)}
    assert found["full step"] == pytest.approx((0.1, 0.15))
    assert found["full wait"] == (0.001, 0.051)
    assert found["full copy"] == (0.0, 0.0)
    failed = after.model_copy(update={"replicates": ()})
    assert of_full(before, failed) == []


def test_a_profile_of_before_kernels_were_kept_says_so() -> None:
    stored = profile(gemm=0.04).model_dump(exclude={"kernel_times"})
    assert missing(Profile.model_validate(stored)) == "No kernels were stored."
    assert missing(Profile()) == "It was measured without a profile."
    assert missing(Profile(absent="Refused.")) == "Refused."
    assert missing(profile(gemm=0.04)) == ""


def test_kernels_of_a_trace_are_summed_by_name_with_what_the_steps_differ() -> None:
    events = []
    for number, long_us in enumerate((10.0, 14.0, 12.0, 99.0)):
        at, one = 1_000.0 * number, 10 * number
        events += [step(number, at, 900.0), launch(one, at + 1), kernel(one, at + 5, long_us, "a")]
        events += [launch(one + 1, at + 2), kernel(one + 1, at + 300, 8.0, "b")]
        events += [launch(one + 2, at + 3), kernel(one + 2, at + 400, 8.0, "b")]
    found = reading.read(timeline.read(events)).kernel_times  # three whole steps
    assert [time.name for time in found] == ["b", "a"]
    assert found[0].model_dump(exclude={"name"}) == pytest.approx(
        {"self_s": 16e-6, "range_s": 0.0, "calls": 2.0}
    )
    assert found[1].model_dump(exclude={"name"}) == pytest.approx(
        {"self_s": 12e-6, "range_s": 4e-6, "calls": 1.0}
    )


def test_only_the_most_expensive_kernels_are_kept() -> None:
    events = [step(1, 0.0, 9_000.0)]
    for n in range(MOST_KERNEL_TIMES + 5):
        events += [launch(n, 1.0 + n), kernel(n, 100.0 * (n + 1), 1.0 + n, f"k{n}")]
    found = reading.read(timeline.read(events)).kernel_times
    assert len(found) == MOST_KERNEL_TIMES
    assert (found[0].name, found[-1].name) == (f"k{MOST_KERNEL_TIMES + 4}", "k5")


B, WIDTH = 64, 256


def undisturbed(loss: object) -> Profile:
    """A profile in whose steps no other process of this machine took the processor for long."""
    for _ in range(40):
        taken = _taken(loss)
        (planted,) = (one for one in taken.kernel_times if one.name == "aten::cumsum")
        if planted.range_s < 0.2 * planted.self_s:
            return taken
    pytest.fail("this machine is too busy to profile anything")


def _taken(loss: object, device: str = "cpu") -> Profile:
    """The profile of a real step."""
    recipe = Recipe(
        model=nn.Linear(WIDTH, WIDTH).to(device),
        loss=loss,  # type: ignore[arg-type]
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=TensorDataset(torch.randn(B, WIDTH)),
        batch=B,
        optimizer_options={"lr": 1e-6},
    )
    ring = [(torch.randn(B, WIDTH, device=device),) for _ in range(4)]
    steady, _ = recording._timed(Trainer(recipe, torch.device(device)), ring, None)
    return reading.read(steady)


def sums(model: nn.Module, batch: Batch) -> Tensor:
    out: Tensor = model(batch[0]).cumsum(0).erf().mean()
    return out


def sorts(model: nn.Module, batch: Batch) -> Tensor:
    """As `sums`, with one operator in place of another, and a slow one many times more."""
    made = model(batch[0])
    for _ in range(20):
        made = made + batch[0].cumsum(0) * 1e-9
    out: Tensor = made.sort(0).values.cumsum(0).mean()
    return out


def test_planted_operators_of_a_real_step_are_found() -> None:
    found = told(changes(undisturbed(sums), undisturbed(sorts)))
    assert found["aten::sort"][0] == "new"
    assert found["aten::erf"][0] == "gone"
    assert found["aten::erf"][1] < 0 < found["aten::sort"][1]
    verdict, seconds = found["aten::cumsum"]
    assert verdict == "slower"
    rows, times = torch.randn(B, WIDTH), []
    for _ in range(50):
        from_s = time.perf_counter()
        rows.cumsum(0)
        times.append(time.perf_counter() - from_s)
    assert seconds == pytest.approx(20 * statistics.median(times), rel=0.8)


@pytest.mark.gpu
def test_planted_kernels_of_a_real_step_on_a_gpu_are_found() -> None:
    before, after = _taken(sums, "cuda"), _taken(sorts, "cuda")
    assert sum(one.self_s for one in before.kernel_times) == pytest.approx(
        sum(before.seconds.values())
    )
    found = [(one.verdict, " ".join(one.names), one) for one in changes(before, after)]
    assert any(verdict == "gone" and "erf" in name for verdict, name, _ in found)
    assert any(verdict == "new" and "sort" in name.lower() for verdict, name, _ in found)
    ((verdict, _, scan),) = (one for one in found if "scan" in one[1] and one[2].baseline)
    assert verdict == "slower"
    assert scan.baseline is not None
    assert scan.contender is not None
    assert scan.contender.calls - scan.baseline.calls == 20
    rows = torch.randn(B, WIDTH, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    rows.cumsum(0)
    start.record()
    for _ in range(20):
        rows.cumsum(0)
    end.record()
    torch.cuda.synchronize()
    assert 0 < scan.seconds < start.elapsed_time(end) / 1e3  # which holds their launches as well
    assert {one.verdict for one in changes(before, before)} == {"unchanged"}
