"""The interval that may be looked at as often as one likes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.analysis.gate.sequential import estimate

LOGS = st.floats(-0.5, 0.5).map(lambda value: round(value, 6))
SOME = st.lists(LOGS, min_size=3, max_size=14)


@given(SOME)
def test_swapping_the_sides_flips_the_sign(differences: list[float]) -> None:
    interval = estimate(differences, error=0.01)
    other = estimate([-difference for difference in differences], error=0.01)
    assert interval is not None
    assert other is not None
    assert other.log_ratio == pytest.approx(-interval.log_ratio, abs=1e-12)
    assert other.low == pytest.approx(-interval.high)
    assert other.high == pytest.approx(-interval.low)


@given(SOME, LOGS)
def test_a_further_pair_never_widens_what_holds(differences: list[float], more: float) -> None:
    before = estimate(differences, error=0.01, max_pairs=20)
    after = estimate([*differences, more], error=0.01, max_pairs=20)
    assert before is not None
    assert after is not None
    if after.consistent:
        assert before.low <= after.low <= after.log_ratio <= after.high <= before.high


@given(SOME, st.floats(-0.2, 0.2))
def test_a_shift_of_every_pair_shifts_the_interval(differences: list[float], by: float) -> None:
    interval = estimate(differences, error=0.01)
    shifted = estimate([difference + by for difference in differences], error=0.01)
    assert interval is not None
    assert shifted is not None
    assert shifted.low == pytest.approx(interval.low + by, abs=1e-9)
    assert shifted.high == pytest.approx(interval.high + by, abs=1e-9)


@given(SOME)
def test_a_smaller_error_needs_a_wider_interval(differences: list[float]) -> None:
    wide, narrow = (estimate(differences, error=error) for error in (0.001, 0.05))
    assert wide is not None
    assert narrow is not None
    assert wide.low <= narrow.low or not narrow.consistent
    assert wide.high >= narrow.high or not narrow.consistent


@given(SOME)
def test_the_last_look_may_spend_what_is_left(differences: list[float]) -> None:
    going_on = estimate(differences, error=0.01, max_pairs=20)
    last = estimate(differences, error=0.01, max_pairs=20, last=True)
    assert going_on is not None
    assert last is not None
    if last.consistent:
        assert last.high - last.low <= going_on.high - going_on.low


def test_too_few_pairs_say_nothing() -> None:
    assert estimate([], error=0.01) is None
    assert estimate([0.1, 0.1], error=0.01) is None


def test_equal_readings_of_a_coarse_counter_prove_no_tiny_difference() -> None:
    interval = estimate([1e-5] * 3, error=0.01)
    assert interval is not None
    assert interval.low < 0 < interval.high


def test_one_outlier_hides_neither_equality_nor_a_difference() -> None:
    pairs = [0.001, -0.002, 0.002, -0.001, 0.0, 0.001, -0.001, 0.002]
    equal = estimate([*pairs, 0.1], error=0.05)
    slower = estimate([*(difference - 0.02 for difference in pairs), 0.1], error=0.01)
    assert equal is not None
    assert slower is not None
    assert -0.01 < equal.low < equal.high < 0.01
    assert slower.high < 0


def test_pairs_that_changed_as_they_came_are_said_to_have() -> None:
    interval = estimate([0.1, 0.1001, 0.1, 0.1001, *[-0.1, -0.1001] * 10], error=0.2, max_pairs=24)
    assert interval is not None
    assert not interval.consistent


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        estimate([0.0, 0.0, wrong], error=0.01)


@pytest.mark.parametrize(("error", "few", "most"), [(0.0, 3, 9), (1.0, 3, 9), (0.1, 1, 9)])
def test_plans_that_make_no_sense_are_refused(error: float, few: int, most: int) -> None:
    with pytest.raises(ValueError, match="error"):
        estimate([0.0] * 3, error=error, min_pairs=few, max_pairs=most)


@pytest.mark.parametrize("gates", [300, pytest.param(1_500, marks=pytest.mark.slow)])
def test_all_looks_together_miss_the_truth_no_more_often_than_they_may(gates: int) -> None:
    """Ten looks at equal sides: at 20 % at most one in five misses; at each look alone it would be
    far more. Seeded; the bound is four standard deviations of so many gates above 20 %."""
    random = np.random.default_rng(11)
    missed = alone = 0
    for pairs in random.normal(0, 0.01, (gates, 12)):
        looks = [estimate(pairs[:count], error=0.2) for count in range(3, 13)]
        alone_looks = [
            estimate(pairs[:n], error=0.2, min_pairs=n, max_pairs=n) for n in range(3, 13)
        ]
        missed += any(one is not None and not one.low <= 0 <= one.high for one in looks)
        alone += any(one is not None and not one.low <= 0 <= one.high for one in alone_looks)
    assert missed / gates < 0.2 + 4 * math.sqrt(0.2 * 0.8 / gates)
    assert alone / gates > 0.3
