"""The verdict follows the evidence, and says when there is none."""

import pytest
from builders.measured import a_pass, a_replicate

from benchmarks.contracts import Bottleneck, Pass, Verdict
from benchmarks.diagnosis.verdict import HOST_SYNC, diagnose, input_stall


def verdict_of(full: Pass, synth: Pass) -> Verdict:
    return diagnose((a_replicate(full, synth),))


def test_a_device_that_waits_for_its_loader_is_input_bound() -> None:
    verdict = verdict_of(a_pass(0.0629, stall_s=0.026), a_pass(0.0371))
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.INPUT, "high")
    assert verdict.bounds["without_input_stall"] == pytest.approx(0.0629 / 0.0371, rel=1e-3)
    assert verdict.sentence == (
        "41% of the step goes away with the loader: waiting for batches 41%. Without that, x1.70."
    )


def test_a_long_copy_is_named_as_the_cause() -> None:
    verdict = verdict_of(a_pass(0.060, stall_s=0.002, copy_s=0.018), a_pass(0.040))
    assert verdict.bottleneck is Bottleneck.INPUT
    assert "copying them to the device 30%, waiting for batches 3%." in verdict.sentence


def test_a_small_stall_is_said_with_low_confidence() -> None:
    verdict = verdict_of(a_pass(0.1075, stall_s=0.0075), a_pass(0.100))
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.INPUT, "low")


def test_a_loader_that_steals_the_processor_is_told_from_one_that_is_late() -> None:
    verdict = verdict_of(a_pass(0.150, stall_s=0.001), a_pass(0.100))
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.INPUT, "low")
    assert "slowed by the loader's use of the processor 33%" in verdict.sentence


def test_an_input_stall_is_told_by_its_parts_the_largest_first() -> None:
    """The fastest ResNet-50 on an H200 with 16 loader processes on 16 cores, as it was measured."""
    full = a_pass(0.0689, stall_s=0.0142, copy_s=0.0030)
    verdict = verdict_of(full, a_pass(0.0373))
    assert verdict.evidence["contention"] == pytest.approx((0.0517 - 0.0373) / 0.0689, abs=1e-3)
    assert verdict.sentence == (
        "46% of the step goes away with the loader: a step slowed by the loader's use of the "
        "processor 21%, waiting for batches 21%, copying them to the device 4%. "
        "Without that, x1.85."
    )


def test_a_busy_device_is_the_limit() -> None:
    verdict = verdict_of(a_pass(0.1002), a_pass(0.100))
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.DEVICE, "high")


def test_a_device_that_runs_dry_while_the_host_queues_is_overhead() -> None:
    busy_host = a_pass(0.006, enqueue_s=0.0058, drained=0.97)
    assert verdict_of(busy_host, busy_host).bottleneck is Bottleneck.OVERHEAD


def test_a_host_that_merely_waits_in_a_full_launch_queue_is_not_overhead() -> None:
    waiting = a_pass(0.100, enqueue_s=0.098, drained=0.0)
    assert verdict_of(waiting, waiting).bottleneck is Bottleneck.DEVICE


def test_what_a_slow_host_varies_by_is_not_taken_for_the_loader() -> None:
    """A tiny net on an H200: its first pass was 29 % slower, and the loader cost it nothing."""
    full = a_pass(0.0085, enqueue_s=0.0083, drained=1.0, noise=0.12)
    synth = a_pass(0.0060, enqueue_s=0.0059, drained=1.0, noise=0.05)
    verdict = verdict_of(full, synth)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.OVERHEAD, "high")
    waiting = full.model_copy(update={"stall_s": 0.0025})
    assert verdict_of(waiting, synth).bottleneck is not Bottleneck.OVERHEAD


def test_a_cpu_is_never_called_overhead() -> None:
    on_cpu = a_pass(0.100, enqueue_s=0.1, drained=None)
    assert verdict_of(on_cpu, on_cpu).bottleneck is Bottleneck.DEVICE


def test_noise_larger_than_the_difference_gives_no_verdict() -> None:
    verdict = verdict_of(a_pass(0.130, stall_s=0.02, noise=0.3), a_pass(0.100, noise=0.02))
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.UNKNOWN, "low")
    assert "quieter machine" in verdict.sentence


def test_a_device_that_stands_idle_is_believed_over_an_interval_of_few_slow_steps() -> None:
    """ResNet-50 without loader processes on an H200: six steps, whose interval is 34 %."""
    full, synth = a_pass(0.75, stall_s=0.49, copy_s=0.02, noise=0.343), a_pass(0.24, noise=0.001)
    verdict = verdict_of(full, synth)
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.INPUT, "low")
    wilder = a_pass(0.75, stall_s=0.49, copy_s=0.02, noise=0.8)
    assert verdict_of(wilder, synth).bottleneck is Bottleneck.UNKNOWN


def test_a_pass_without_an_interval_gives_no_verdict() -> None:
    short = a_pass(0.130, stall_s=0.02).model_copy(update={"half_width": None})
    verdict = verdict_of(short, a_pass(0.100))
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.UNKNOWN, "low")
    assert "too short" in verdict.sentence


def test_a_step_that_waits_for_the_device_by_itself_is_not_called_overhead() -> None:
    timed = a_pass(0.1, enqueue_s=0.099, drained=1.0)
    replicate = a_replicate(timed, timed).model_copy(update={"flags": (HOST_SYNC,)})
    verdict = diagnose((replicate,))
    assert (verdict.bottleneck, verdict.confidence) == (Bottleneck.DEVICE, "low")
    assert "gradient scaler" in verdict.sentence


def test_the_input_stall_is_the_share_of_the_step_that_the_loader_costs() -> None:
    assert input_stall(full_rate=4_071.0, synth_rate=6_901.0) == pytest.approx(0.410, abs=1e-3)
