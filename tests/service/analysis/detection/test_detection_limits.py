"""Bad input gets a clear answer or a clear refusal; much input gets its answer in time."""

import math
import sys
import time
from types import FrameType

import numpy as np
import pytest

from service.analysis.detection.history import History, Refused
from service.analysis.detection.windows import STRIDE, detect, extend
from service.wording.statements import say


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_too_few_points_are_said_to_be_too_few(count: int) -> None:
    analysed = detect(History.of([1.0] * count))
    assert analysed.change_points == ()
    assert analysed.noise is None
    assert say(analysed.warnings[0]).startswith("1 point: " if count == 1 else f"{count} points: ")


@pytest.mark.parametrize("value", [0.0, 5.0, -5.0, 1e-150, 1e150])
def test_a_constant_history_has_no_change(value: float) -> None:
    analysed = detect(History.of([value] * 300))
    assert analysed.change_points == ()
    assert analysed.noise is not None


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e200])
def test_what_is_no_measurement_is_refused_by_its_place(wrong: float) -> None:
    with pytest.raises(Refused, match="Value 3 is"):
        History.of([1.0, 2.0, 3.0, wrong, 5.0])


@pytest.mark.parametrize("values", [["a", "b"], [[1.0], [2.0]], [[1.0], 2.0], [10**400]])
def test_what_is_no_list_of_numbers_is_refused(values: list[float]) -> None:
    with pytest.raises(Refused):
        History.of(values)


def test_groups_must_be_as_many_as_values() -> None:
    with pytest.raises(Refused, match="2 groups for 3 values"):
        History.of([1.0, 2.0, 3.0], "lower", ["a", "b"])


def test_a_direction_is_one_of_two() -> None:
    with pytest.raises(Refused, match="sideways"):
        History.of([1.0], "sideways")


def test_a_history_cannot_be_changed_from_outside() -> None:
    mine = np.ones(20)
    history = History.of(mine)
    mine[3] = 7.0
    assert history.values[3] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        history.values[3] = 7.0


def test_zeros_and_both_signs_are_analysed_without_ratios() -> None:
    values = np.random.default_rng(0).normal(0, 1, 100)
    values[50:] += 20.0
    values[70] = 0.0
    analysed = detect(History.of(values))
    assert [abs(change.index - 50) <= 1 for change in analysed.change_points] == [True]
    assert "no ratios" in say(analysed.warnings[0])
    assert analysed.change_points[0].after - analysed.change_points[0].before == pytest.approx(
        20, abs=1
    )


@pytest.mark.parametrize("at", [0, 5, 50, 99])
def test_a_millionfold_outlier_is_no_change_and_hides_none(at: int) -> None:
    values = np.random.default_rng(1).normal(100, 1, 100)
    values[60:] *= 1.1
    values[at] *= 1e6
    places = [change.index for change in detect(History.of(values)).change_points]
    assert len(places) == 1
    assert abs(places[0] - 60) <= 2


def test_values_of_all_sizes_at_once_overflow_nothing() -> None:
    values = [0.0] + [1e-150] * 30 + [1e150, -1e150] * 20 + [1e-150] * 30
    for change in detect(History.of(values)).change_points:
        assert np.isfinite([change.effect, change.before, change.after]).all()


def test_a_constant_history_that_steps_once_is_one_change() -> None:
    assert [c.index for c in detect(History.of([5.0] * 30 + [6.0] * 30)).change_points] == [30]


def fastest_s(work: object, times: int = 3) -> float:
    """Processor time, the best of a few: a loaded machine makes it longer, never shorter."""
    taken = []
    for _ in range(times):
        started = time.process_time()
        work()  # type: ignore[operator]
        taken.append(time.process_time() - started)
    return min(taken)


def history_with_steps(count: int) -> History:
    rng = np.random.default_rng(2)
    level = np.repeat(rng.normal(0, 0.02, count // 100 + 1), 100)[:count]
    return History.of(100 * np.exp(level + rng.normal(0, 0.01, count)))


def test_a_thousand_points_take_no_time() -> None:
    history = history_with_steps(1000)
    assert fastest_s(lambda: detect(history)) < 0.1


def test_time_grows_with_points_and_a_new_point_does_not_pay_for_old_ones() -> None:
    history = history_with_steps(10_001)
    before = detect(history.first(10_000))
    assert fastest_s(lambda: extend(before, history)) < 0.015
    assert fastest_s(lambda: detect(history), 1) < 1.0


def work(history: History) -> int:
    """Functions called to analyse a history: the same number on every machine, loaded or not."""
    calls = 0

    def count(_frame: FrameType, event: str, _function: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        detect(history)
    finally:
        sys.setprofile(before)
    return calls


def test_a_machine_of_its_own_for_each_point_costs_no_more_than_the_points() -> None:
    """Short-lived machines, as of a cluster, have as many names as there are points."""

    def named(count: int) -> History:
        values = history_with_steps(count).values
        return History.of(values, "lower", [f"pod-{at}" for at in range(count)])

    short, long = named(6 * STRIDE), named(24 * STRIDE)
    assert work(long) < 5 * work(short)


@pytest.mark.slow
def test_a_million_points_are_analysed() -> None:
    values = np.tile(history_with_steps(10_000).values, 100)
    started = time.process_time()
    analysed = detect(History.of(values[:100_000]))
    assert time.process_time() - started < 10
    assert len(analysed.change_points) > 100
    assert len(History.of(values).values) == 1_000_000
