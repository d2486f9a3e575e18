"""Warm-up ends when steady state is seen, not when a count is reached."""

from collections.abc import Callable, Iterable

from benchmarks.contracts import Protocol
from benchmarks.measure.loop import StepTimes
from benchmarks.measure.warmup import Reading, WarmupRule

CALM = Protocol(settle_max_s=0.0)


def warm_up(
    steps: Iterable[float],
    read: Callable[[], Reading] = Reading,
    protocol: Protocol = CALM,
) -> tuple[int, str]:
    """Feed steps one by one; how many were taken, and how it ended."""
    rule, times = WarmupRule(protocol, read), StepTimes()
    for step in steps:
        times.step.append(step)
        times.stall.append(0.0)
        if rule(times):
            return len(times.step), rule.reason
    raise AssertionError("warm-up never ended")


def test_steady_steps_end_warm_up_at_its_floors() -> None:
    taken, reason = warm_up([0.4] * 100)
    assert reason == "steady"
    assert 10 <= taken <= 15


def test_warm_up_lasts_at_least_three_seconds_of_fast_steps() -> None:
    taken, _ = warm_up([0.01] * 1000)
    assert taken * 0.01 >= 3.0


def test_slow_first_steps_are_left_behind() -> None:
    taken, reason = warm_up([8.0, 3.0, 1.0] + [1.5, 1.2, 1.0, 0.8, 0.6] + [0.5] * 100)
    assert reason == "steady"
    assert taken >= 18


def test_a_recompilation_starts_the_wait_anew() -> None:
    readings = iter([0, 0, 1, 1, 1, 1, 1, 1, 1])
    quiet, _ = warm_up([0.4] * 100)
    disturbed, _ = warm_up([0.4] * 100, lambda: Reading(counters=(next(readings),)))
    assert disturbed > quiet


def test_a_host_that_never_calms_down_passes_when_it_is_flat() -> None:
    block = [0.4, 0.4, 0.4, 0.4, 0.9]
    _, reason = warm_up([0.4] * 3 + block * 40)
    assert reason == "flat"


def test_a_bursty_loader_is_not_waited_for_once_the_device_is_steady() -> None:
    rule, times = WarmupRule(CALM, Reading), StepTimes()
    for stall in ([0.0] * 7 + [1.6]) * 40:
        times.step.append(0.05 + stall)
        times.stall.append(stall)
        if rule(times):
            break
    assert rule.reason == "steady"
    assert 3.0 <= sum(times.step) <= 6.0


def test_a_device_that_still_speeds_up_behind_a_slow_loader_is_waited_for() -> None:
    rule, times = WarmupRule(CALM, Reading), StepTimes()
    work = [1.5, 1.2, 1.0, 0.8, 0.6, 0.55, 0.5, 0.45] + [0.4] * 100
    for step in work:
        times.step.append(2.0)
        times.stall.append(2.0 - step)
        if rule(times):
            break
    assert rule.reason == "steady"
    assert len(times.step) > 15


def test_steps_that_keep_falling_end_at_the_cap_and_say_so() -> None:
    falling = [2.0 * 0.97**n + 0.05 for n in range(500)]
    taken, reason = warm_up(falling, protocol=Protocol(warmup_max_steps=60, settle_max_s=0.0))
    assert (taken, reason) == (60, "capped")


def test_a_device_that_still_heats_up_is_waited_for() -> None:
    degrees = iter(range(40, 400, 2))
    waited, _ = warm_up(
        [0.4] * 100,
        lambda: Reading(temperature_c=next(degrees)),
        Protocol(settle_max_s=12.0),
    )
    assert 12.0 <= waited * 0.4 <= 14.5


def test_a_device_of_constant_temperature_is_not_waited_for_beyond_five_seconds() -> None:
    waited, _ = warm_up(
        [0.4] * 100, lambda: Reading(temperature_c=55.0), Protocol(settle_max_s=20.0)
    )
    assert waited * 0.4 <= 10.0
