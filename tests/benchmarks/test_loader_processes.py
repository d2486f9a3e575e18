"""The model of loader processes: bound by the device, the processors or the disk, as planted."""

import pytest
from builders.measured import BATCH, a_pass, a_replicate, a_result, an_input
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contracts import Input, Replicate
from benchmarks.diagnosis import loader_processes
from benchmarks.diagnosis.conclude import concluded, place_of
from benchmarks.diagnosis.loader_processes import Forecast

STEP_S = 0.04


def fed(cost: Input, full_s: float) -> Replicate:
    """A replicate whose step of 40 ms takes ``full_s`` with its loader."""
    full = a_pass(full_s, stall_s=full_s - STEP_S)
    return a_replicate(full, a_pass(STEP_S)).model_copy(update={"input": cost})


def forecast(cost: Input, full_s: float = 0.1) -> Forecast:
    told = loader_processes.forecast(fed(cost, full_s))
    assert told is not None
    return told


def test_processes_help_until_the_device_no_longer_waits() -> None:
    # A batch takes a process 0.2 s, so that two have a step every 0.1 s, and five the 0.04 s.
    told = forecast(an_input(cpus=64))
    assert (told.limit, told.enough) == ("device", 5)
    assert told.speedup(3) == pytest.approx(1.5)
    assert told.speedup(50) == pytest.approx(2.5)
    assert told.sentence == (
        "By the model one more loader process brings x1.50, 5 bring x2.50; "
        "then the device no longer waits."
    )


def test_processes_share_the_processors_with_the_step() -> None:
    # A step takes 0.1 s and a batch 0.2 s of the three processors.
    told = forecast(an_input(cpus=3, step_cpu_s=0.1))
    assert told.limit == "processors"
    assert told.speedup(9) == pytest.approx(1.0)
    assert told.sentence == (
        "By the model more loader processes bring nothing: the processors are busy."
    )


def test_samples_that_wait_need_more_processes_than_processors() -> None:
    told = forecast(an_input(cpus=1, cpu_s=0.0001))
    assert (told.limit, told.enough) == ("device", 5)


def test_a_disk_that_is_read_is_a_limit_and_one_that_is_not_is_none() -> None:
    disk = {"cpus": 64, "fetch_s": 0.001, "disk_b_per_s": 1.5e8}
    told = forecast(an_input(missed_b=1e5, **disk))
    # A batch of 10 MB a step: 15 steps a second, of 10 that were measured.
    assert (told.limit, told.speedup(64)) == ("disk", pytest.approx(1.5))
    assert forecast(an_input(**disk), 0.05).limit == "device"


def test_the_measured_rate_scales_the_model() -> None:
    told = forecast(an_input(cpus=64), full_s=0.12)  # where the model says 0.1 s
    assert told.speedup(3) == pytest.approx(1.5)
    assert told.enough == 6


@pytest.mark.parametrize("full_s", [0.3, 0.045])
def test_a_rate_that_the_model_does_not_explain_has_no_forecast(full_s: float) -> None:
    assert loader_processes.forecast(fed(an_input(), full_s)) is None


def test_a_case_without_loader_processes_is_told_of_the_first() -> None:
    told = forecast(an_input(workers=0, cpus=64), full_s=0.24)
    assert told.speedup(1) == pytest.approx(1.2)
    assert told.enough == 5


@given(
    cpus=st.integers(1, 256),
    workers=st.integers(0, 64),
    missed_b=st.floats(0, 1e6),
    step_cpu_s=st.floats(0, 1),
    full_s=st.floats(STEP_S, 1),
)
def test_more_processes_are_never_slower_and_enough_are_enough(
    cpus: int, workers: int, missed_b: float, step_cpu_s: float, full_s: float
) -> None:
    cost = an_input(workers, cpus=cpus, missed_b=missed_b, step_cpu_s=step_cpu_s)
    told = loader_processes.forecast(fed(cost, full_s))
    if told is not None:
        rates = [told.speedup(count) for count in range(200)]
        assert rates == sorted(rates)
        assert told.speedup(told.enough) >= 0.98 * told.speedup(10_000)


@pytest.mark.parametrize(("speedup", "share"), [(1.0, 1.0), (0.8, 1.0), (4.0, 0.0), (1.6, 0.5)])
def test_the_share_under_the_lock_is_amdahls(speedup: float, share: float) -> None:
    assert loader_processes.lock_share(an_input(threads_speedup=speedup)) == pytest.approx(share)


def test_the_verdict_says_it_and_the_suggestion_takes_as_many_as_are_enough() -> None:
    result = a_result(fed(an_input(cpus=64), 0.1))
    assert place_of(result).loaders == 5
    assert result.verdict is not None
    assert result.verdict.sentence.endswith("5 bring x2.50; then the device no longer waits.")
    assert result.verdict.bounds["with_one_more_worker"] == pytest.approx(1.5)
    (more,) = (one for one in result.verdict.suggestions if one.axis == "workers")
    assert more.sentence == "workers=8: 60% of the step goes away with more of them, by the model."


def test_no_more_processes_are_suggested_where_they_bring_nothing() -> None:
    verdict = a_result(fed(an_input(cpus=2), 0.1)).verdict
    assert verdict is not None
    assert "workers" not in {one.axis for one in verdict.suggestions}
    assert "decode" in {one.axis for one in verdict.suggestions}


def test_a_disk_that_takes_much_of_a_sample_is_named_with_its_share() -> None:
    replicate = fed(an_input(missed_b=1e5, disk_s=0.008, fetch_s=0.002, disk_b_per_s=2e8), 0.5)
    verdict = concluded(a_result(replicate)).verdict
    assert verdict is not None
    first, *axes = (one.sentence for one in verdict.suggestions)
    assert first == "A faster disk, or data in memory: the disk takes 80% of a sample."
    assert any(one.startswith("decode=cache: ") for one in axes)


def test_a_batch_is_what_the_model_counts() -> None:
    assert forecast(an_input(cpus=64)).by_each == pytest.approx(1 / (BATCH * 0.002))


def test_a_cost_that_tells_nothing_divides_nothing() -> None:
    alone = Input(samples=1, threads=1, threads_speedup=1.0)
    assert loader_processes.lock_share(alone) is None
    replicate = a_replicate(a_pass(0.1), a_pass(0.1)).model_copy(update={"input": alone})
    assert loader_processes.forecast(replicate) is None
