"""One odd measurement at an end of a change does not say where the change lies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.history.change_ends import doubtful

EFFECTS = st.sampled_from([-0.2, -0.03, 0.03, 0.2])


@given(EFFECTS, st.integers(2, 4), st.integers(2, 4), st.integers(0, 7), st.floats(50, 200))
def test_equal_ends_are_doubtful_whatever_one_measurement_gave(
    effect: float, goods: int, bads: int, which: int, odd: float
) -> None:
    values = [100.0] * (goods + bads)
    values[which % len(values)] = odd
    assert doubtful("a", "b", {"a": values[:goods], "b": values[goods:]}, effect)


@given(EFFECTS, st.integers(0, 5), st.floats(50, 200))
def test_ends_that_differ_are_so_in_spite_of_one_odd_measurement(
    effect: float, which: int, odd: float
) -> None:
    values = [100.0] * 3 + [100.0 * (1 + effect)] * 3
    values[which] = odd
    assert doubtful("a", "b", {"a": values[:3], "b": values[3:]}, effect) is None


@pytest.mark.parametrize(
    ("good", "bad", "confirmed", "doubted"),
    [
        ([100.0], [95.0], (), "b"),
        ([100.0], [95.0, 95.1], (), "a"),
        ([100.0, 100.1], [95.0], (), "b"),
        ([100.0, 100.1], [95.0, 95.1], (), None),
        ([100.0], [95.0, 95.1], ("a",), None),
        ([100.0], [95.0], ("a", "b"), None),
        ([], [95.0], ("a", "b"), "a"),
        ([100.0, 95.0], [95.0, 95.1, 95.0], (), "a"),
        ([100.0, 100.1], [98.0, 98.1], (), "b"),
        ([100.0, 100.1], [105.0, 105.1], (), "b"),
        ([0.0, 0.0], [95.0, 95.1], (), "b"),
    ],
)
def test_what_is_to_be_measured_again(
    good: list[float], bad: list[float], confirmed: tuple[str, ...], doubted: str | None
) -> None:
    assert doubtful("a", "b", {"a": good, "b": bad}, -0.05, confirmed) == doubted
