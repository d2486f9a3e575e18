"""Utilisation out of recorded rates; an unknown device gives none rather than a wrong one."""

from datetime import UTC, datetime

import pytest
from builders.measured import a_pass, a_replicate, a_result
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contracts import Canary, Case, Replicate, Result, Telemetry, Trace, Work
from benchmarks.diagnosis import peaks
from benchmarks.diagnosis.efficiency import counted, used
from benchmarks.diagnosis.merge import merge
from benchmarks.diagnosis.peaks import PEAKS
from service.wording import formats

H200 = {
    "hw.device": "cuda",
    "hw.gpu.name": "NVIDIA H200",
    "hw.gpu.sm_count": "132",
    "flag.autocast": "torch.bfloat16",
}
GPT = Case(workload="nanogpt", preset="full", axes={"precision": "bf16"})
WORK = Work(flops_per_item=854.65e6, flops_by_formula=854.77e6, roof_s=0.04)
STEP_S = 32_768 / 524_658
"""nanoGPT, bf16, compiled, as recorded on an H200."""


def a_run(clock_hz: float | None = None) -> Replicate:
    timed = a_pass(STEP_S).model_copy(update={"rate": 32_768 / STEP_S})
    replicate = a_replicate(timed, timed)
    if clock_hz is None:
        return replicate
    telemetry = Telemetry(
        hz=10.0, t_s=Trace.of([0, 0.1]), channels={"sm_clock_hz": Trace.of([clock_hz] * 2)}
    )
    return replicate.model_copy(update={"telemetry": {"full": telemetry, "synth": telemetry}})


def test_utilisation_of_a_recorded_run_on_an_h200() -> None:
    efficiency = used(counted(WORK, GPT, H200), [a_run(1_650e6)], 32_768, H200)
    use = efficiency.uses["full"]
    assert (efficiency.device, efficiency.dtype, efficiency.reason) == (
        "NVIDIA H200 SXM",
        "bf16",
        "",
    )
    assert use.flop_per_s == pytest.approx(448.4e12, rel=1e-3)
    assert use.mfu == pytest.approx(0.4532, rel=1e-3)
    assert use.mfu_clock == pytest.approx(448.4e12 / (540_672 * 1_650e6), rel=1e-3)
    assert use.vs_achievable == pytest.approx(448.4 / 802, rel=1e-3)
    assert use.roofline_fraction == pytest.approx(0.04 / STEP_S)


def test_without_telemetry_there_is_no_clock_to_hold_to() -> None:
    use = used(counted(WORK, GPT, H200), [a_run()], 32_768, H200).uses["synth"]
    assert use.mfu_clock is None
    assert use.mfu is not None


@pytest.mark.parametrize(
    "other",
    [
        {"hw.gpu.name": "NVIDIA H200 NVL"},
        {"hw.gpu.name": "NVIDIA H200 MIG 1g.18gb", "hw.gpu.sm_count": "16"},
        {"hw.gpu.sm_count": "114"},
        {"hw.gpu.memory_bus_bits": "5120"},
        {"hw.gpu.name": "NVIDIA GeForce RTX 9999"},
    ],
)
def test_an_unknown_gpu_has_no_utilisation_and_a_reason(other: dict[str, str]) -> None:
    facts = H200 | other
    efficiency = used(counted(WORK, GPT, facts), [a_run(1_650e6)], 32_768, facts)
    assert facts["hw.gpu.name"] in efficiency.reason
    use = efficiency.uses["full"]
    assert use.flop_per_s > 0
    assert (use.mfu, use.mfu_clock, use.vs_achievable, use.roofline_fraction) == (None,) * 4


READINGS = {"gemm_flop_s": 600e12, "gemm_fp32_flop_s": 50e12, "copy_b_s": 4e12}
MOVING = WORK.model_copy(update={"moved_b": 0.5 * 4e12 * STEP_S})
"""Half of what a copy moves in the time of a step."""


def test_the_bytes_of_a_step_are_held_to_the_copy_of_its_own_device() -> None:
    use = used(counted(MOVING, GPT, H200), [a_run()], 32_768, H200, READINGS).uses["full"]
    assert use.moved_b_per_s == pytest.approx(2e12)
    assert use.vs_copy == pytest.approx(0.5)
    assert use.vs_achievable == pytest.approx(448.4 / 802, rel=1e-3)  # by the table, not 600
    alone = used(counted(MOVING, GPT, H200), [a_run()], 32_768, H200).uses["full"]
    assert (alone.moved_b_per_s, alone.vs_copy) == (use.moved_b_per_s, None)


def test_a_gpu_in_no_table_is_held_to_its_canary_and_that_is_said() -> None:
    facts = H200 | {"hw.gpu.name": "NVIDIA GeForce RTX 9999"}
    efficiency = used(counted(MOVING, GPT, facts), [a_run()], 32_768, facts, READINGS)
    use = efficiency.uses["full"]
    assert use.vs_achievable == pytest.approx(448.4 / 600, rel=1e-3)
    assert use.vs_copy == pytest.approx(0.5)
    assert (use.mfu, use.roofline_fraction) == (None, None)
    assert efficiency.reason == (
        "NVIDIA GeForce RTX 9999 with 132 SMs is not in the table of peaks "
        "(benchmarks/diagnosis/peaks.py), so its speed is held to the matrix product and the copy "
        "that its own canary measured."
    )
    said = formats.efficiency(efficiency).replace(formats.NBSP, " ")
    assert said.startswith("74.7 % of what a matrix product reaches; 50.0 % of the rate of a copy")
    assert said.endswith(efficiency.reason)


def test_a_cpu_is_held_to_nothing() -> None:
    """Its canary multiplies in fp32, whatever the arithmetic of the case."""
    facts = {"hw.device": "cpu"}
    efficiency = used(counted(MOVING, GPT, facts), [a_run()], 32_768, facts, READINGS)
    use = efficiency.uses["full"]
    assert (use.vs_achievable, use.vs_copy) == (None, None)
    assert efficiency.reason.startswith("Measured on a CPU")


def test_a_row_without_an_achievable_rate_takes_that_of_the_canary() -> None:
    facts = H200 | {"hw.gpu.name": "NVIDIA H100 80GB HBM3"}
    efficiency = used(counted(MOVING, GPT, facts), [a_run()], 32_768, facts, READINGS)
    use = efficiency.uses["full"]
    assert (use.mfu, use.vs_achievable) == pytest.approx((448.4 / 989.5, 448.4 / 600), rel=1e-3)
    assert efficiency.reason == ""


def test_mixed_fp8_is_held_to_no_product_and_to_the_copy() -> None:
    fp8 = GPT.model_copy(update={"axes": {"precision": "fp8"}})
    facts, readings = H200 | {"flag.float8": "true"}, READINGS | {"gemm_fp8_flop_s": 1_200e12}
    for known in (facts, facts | {"hw.gpu.name": "NVIDIA GeForce RTX 9999"}):
        use = used(counted(MOVING, fp8, known), [a_run()], 32_768, known, readings).uses["full"]
        assert (use.mfu, use.vs_achievable) == (None, None)
        assert use.vs_copy == pytest.approx(0.5)


def test_mixed_fp8_has_no_one_peak() -> None:
    fp8 = GPT.model_copy(update={"axes": {"precision": "fp8"}})
    efficiency = used(counted(WORK, fp8, H200), [a_run()], 32_768, H200)
    assert efficiency.uses["full"].mfu is None
    assert "fp8" in efficiency.reason


def test_what_could_not_be_counted_says_why() -> None:
    efficiency = used(counted(None, GPT, H200, "It would not run."), [a_run()], 32_768, H200)
    assert (efficiency.uses, efficiency.reason) == ({}, "It would not run.")


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ({"flag.autocast": "off", "flag.tf32_matmul": "false"}, "fp32"),
        ({"flag.autocast": "off", "flag.tf32_matmul": "true"}, "tf32"),
        ({"flag.autocast": "torch.bfloat16", "flag.tf32_matmul": "false"}, "bf16"),
        ({"flag.autocast": "torch.float16", "flag.tf32_matmul": "false"}, "fp16"),
        ({}, "fp32"),
    ],
)
def test_the_arithmetic_is_read_from_what_was_put_in_force(
    flags: dict[str, str], dtype: str
) -> None:
    assert peaks.dtype(flags) == dtype


@pytest.mark.parametrize("row", PEAKS, ids=lambda row: row.device)
def test_each_row_agrees_with_its_own_clocks(row: peaks.Peak) -> None:
    assert row.source
    assert set(row.flop_per_s) == set(row.flop_per_clock) <= {"fp32", "tf32", "bf16", "fp16", "fp8"}
    for dtype, rate in row.flop_per_s.items():
        boost_hz = rate / (row.sm_count * row.flop_per_clock[dtype])
        assert 1.3e9 < boost_hz < 2.0e9, dtype
    assert all(rate < row.flop_per_s[dtype] for dtype, rate in row.achievable.items())
    assert (row.achievable_bandwidth or 0) < row.bandwidth
    facts = {"hw.gpu.name": row.names[0], "hw.gpu.sm_count": str(row.sm_count)}
    assert peaks.match(facts) is row
    assert peaks.match(facts | {"hw.gpu.memory_bus_bits": str(row.bus_bits)}) is row


@given(st.floats(1e-3, 10.0), st.integers(1, 5))
def test_utilisation_is_the_same_however_many_processes_measured_it(
    step_s: float, count: int
) -> None:
    timed = a_pass(step_s)
    runs = [a_replicate(timed, timed, seed) for seed in range(count)]
    work = counted(WORK, GPT, H200)
    one, many = used(work, runs[:1], 100, H200), used(work, runs, 100, H200)
    mfu = many.uses["full"].mfu
    assert mfu == pytest.approx(one.uses["full"].mfu)


def test_a_job_tells_the_utilisation_of_all_its_processes() -> None:
    node = Canary(measured_at=datetime(2026, 1, 1, tzinfo=UTC), readings=READINGS)

    def one(seed: int) -> Result:
        measured = {"case": GPT, "efficiency": counted(MOVING, GPT, H200), "batch_items": 32_768}
        measured |= {"canary": node}
        bare = a_result(a_run(1_650e6).model_copy(update={"seed": seed}))
        facts = bare.environment.model_copy(update={"facts": H200})
        return bare.model_copy(update=measured | {"environment": facts})

    merged = merge([one(0), one(1)])
    assert merged.efficiency is not None
    assert merged.efficiency.uses["full"].mfu == pytest.approx(0.4532, rel=1e-3)
    assert merged.efficiency.uses["full"].vs_copy == pytest.approx(0.5)
    assert "mfu" not in {sample.metric for sample in merged.samples}
