"""Rates, intervals and the decision to stop."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contracts import Protocol, StopReason, Window
from benchmarks.contracts.bounds import pass_steps
from benchmarks.measure.estimate import (
    StopRule,
    block_length,
    interval,
    shortened,
    summarise,
)
from benchmarks.measure.loop import StepTimes, TimedPass

PROTOCOL = Protocol()


def times_of(steps: Sequence[float]) -> StepTimes:
    n = len(steps)
    return StepTimes(list(steps), [0.0] * n, [0.0] * n, list(steps), [0.001] * n, [False] * n)


def stop_of(steps: Sequence[float], protocol: Protocol = PROTOCOL) -> tuple[int, StopReason]:
    """Feed steps one by one; where the rule stopped and why."""
    rule = StopRule(protocol, block_length(steps[0], protocol))
    times = StepTimes()
    for step in steps:
        times.step.append(step)
        if rule(times):
            return len(times.step), rule.reason
    raise AssertionError("the rule never stopped")


def test_a_block_is_at_least_five_steps_and_a_quarter_of_a_second() -> None:
    assert block_length(0.1, PROTOCOL) == 5
    assert block_length(0.010, PROTOCOL) == 25


def test_the_interval_is_students_t_over_block_means() -> None:
    from scipy import stats  # a second and a half, for whoever only collects

    noise = random.Random(1)
    steps = [0.1 + noise.gauss(0, 0.01) for _ in range(100)]
    means = [sum(steps[i : i + 10]) / 10 for i in range(0, 100, 10)]
    low, high = stats.t.interval(0.95, 9, loc=sum(means) / 10, scale=stats.sem(means))
    bounds = interval(steps, 10)
    assert bounds is not None
    assert math.isclose(bounds.half_width * sum(means) / 10, (high - low) / 2, rel_tol=1e-9)


def test_correlated_blocks_are_doubled_until_they_are_not() -> None:
    noise, level, steps = random.Random(2), 0.0, []
    for _ in range(640):
        level = 0.95 * level + noise.gauss(0, 0.001)
        steps.append(0.1 + level)
    bounds = interval(steps, 5)
    assert bounds is not None
    assert bounds.block_steps > 5


def test_a_block_of_a_bursty_loader_holds_whole_rounds_and_the_limit_holds_inside_it() -> None:
    round_ = [0.0001] * 7 + [0.2]  # eight loader processes that deliver together
    mean_s = sum(round_) / len(round_)
    assert block_length(mean_s, PROTOCOL, least=8) <= 16
    rule = StopRule(Protocol(window_max_s=3.0), block_steps=850)
    times, steps = StepTimes(), 0
    for steps, step in enumerate(round_ * 100, start=1):  # noqa: B007
        times.step.append(step)
        if rule(times):
            break
    assert sum(times.step) <= 3.3
    assert rule.reason is StopReason.TIME


@pytest.mark.parametrize("processes", [1, 50])
def test_a_pass_of_very_short_steps_ends_when_the_result_has_no_room_for_more(
    processes: int,
) -> None:
    noise = random.Random(3)
    steps = [1e-6 * noise.uniform(0.5, 1.5) for _ in range(pass_steps(processes))]
    protocol = Protocol(replicates=processes, window_min_s=1e6, window_max_s=1e6)
    assert stop_of(steps, protocol) == (pass_steps(processes), StopReason.STEPS)


def test_one_block_gives_no_interval() -> None:
    assert interval([0.1] * 9, 5) is None


@pytest.mark.parametrize(
    ("block", "steps", "used"), [(16, 21, 4), (5, 40, 5), (16, 64, 16), (2, 3, 1), (850, 1, 1)]
)
def test_a_short_pass_is_cut_into_shorter_blocks(block: int, steps: int, used: int) -> None:
    assert shortened(block, steps) == used


@given(st.floats(1e-4, 10.0), st.integers(20, 60))
def test_constant_steps_have_an_interval_of_no_width(step: float, n: int) -> None:
    bounds = interval([step] * n, 5)
    assert bounds is not None
    assert bounds.half_width <= 1e-9


@given(st.lists(st.floats(0.01, 1.0), min_size=20, max_size=80), st.floats(0.001, 1000.0))
def test_the_relative_interval_does_not_depend_on_the_unit(
    steps: list[float], scale: float
) -> None:
    one, other = interval(steps, 5), interval([s * scale for s in steps], 5)
    assert one is not None
    assert other is not None
    assert math.isclose(one.half_width, other.half_width, rel_tol=1e-6, abs_tol=1e-12)


def test_a_calm_pass_stops_at_its_floors_and_calls_itself_precise() -> None:
    steps, reason = stop_of([0.125] * 1000)
    assert (steps, reason) == (50, StopReason.PRECISE)


def test_a_pass_runs_at_least_five_seconds() -> None:
    steps, _ = stop_of([0.01] * 10_000)
    assert steps * 0.01 >= 5.0


def test_a_noisy_pass_ends_at_its_time_limit_or_plateau_and_says_so() -> None:
    noise = random.Random(3)
    steps, reason = stop_of([noise.choice([0.05, 0.5]) for _ in range(10_000)])
    assert reason in {StopReason.TIME, StopReason.PLATEAU}
    assert steps >= 30


def test_slow_steps_end_at_the_time_limit_even_short_of_the_floors() -> None:
    steps, reason = stop_of([2.0] * 100, Protocol(window_max_s=10.0, block_min_steps=2))
    assert (steps, reason) == (5, StopReason.TIME)


def test_the_rate_is_items_over_elapsed_time_with_no_step_left_out() -> None:
    steps = [0.1] * 99 + [10.1]
    timed = TimedPass(
        times_of(steps), Window(start_s=0, end_s=20), wall_s=20.0, cpu_pressure=0.1, loss=1.0
    )
    summary = summarise(timed, 256, StopRule(PROTOCOL, 5), queued=True)
    assert math.isclose(summary.rate, 256 * 100 / 20.0)
    assert summary.max_s == pytest.approx(10.1)
    assert summary.step_trace.n == 100
    assert summary.slow_steps == 1


def test_a_cpu_is_never_said_to_have_run_dry() -> None:
    timed = TimedPass(
        times_of([0.1] * 30), Window(start_s=0, end_s=3), wall_s=3.0, cpu_pressure=None, loss=1.0
    )
    assert summarise(timed, 1, StopRule(PROTOCOL, 5), queued=False).drained is None
