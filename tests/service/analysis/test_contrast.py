"""Two sides of a history: the interval covers, pairs cancel what both went through."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from service.analysis.contrast import by_revision, contrast

RNG = np.random.default_rng(4)


def side(values: np.ndarray, first: int = 0) -> dict[str, float]:
    return by_revision((f"r{number}", float(v)) for number, v in enumerate(values, first))


def test_sides_without_a_common_revision_are_compared_as_welch_does() -> None:
    one, other = RNG.normal(100, 1, 9), RNG.normal(97, 2, 14)
    found = contrast(side(one), side(other, 20))
    assert found is not None
    expected = stats.ttest_ind(np.log(other), np.log(one), equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.expm1(low), math.expm1(high)))
    assert found.pairs == 0


def test_common_revisions_are_compared_with_themselves() -> None:
    drifting = np.linspace(100, 150, 12)
    found = contrast(side(drifting), side(drifting * 1.02 * RNG.normal(1, 0.001, 12)))
    assert found is not None
    assert found.pairs == 12
    assert found.is_called
    assert found.change == pytest.approx(0.02, abs=0.002)


def test_a_revision_counts_once() -> None:
    often = by_revision([("r1", 100.0)] * 50 + [("r2", 110.0)])
    once = by_revision([("r1", 100.0), ("r2", 110.0)])
    assert often == pytest.approx(once)


def test_equal_sides_are_seldom_called_different() -> None:
    called = 0
    for _ in range(1_000):
        found = contrast(side(RNG.normal(100, 1, 8)), side(RNG.normal(100, 1, 8), 20))
        called += found is not None and found.is_called
    assert called <= 30  # 12.5 expected


@pytest.mark.parametrize(("one", "other"), [([], [1.0]), ([1.0], []), ([0.0, -1.0], [1.0])])
def test_a_side_without_values_has_no_contrast(one: list[float], other: list[float]) -> None:
    assert contrast(side(np.array(one)), side(np.array(other))) is None


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=6), st.floats(1e-300, 1e300))
def test_any_values_are_answered(values: list[float], other: float) -> None:
    found = contrast(side(np.array(values)), side(np.array([other]), 20))
    assert found is not None
    assert found.low is None
    assert not found.is_called
