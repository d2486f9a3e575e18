"""Tests what is a drift, and what is one step after the other."""

from __future__ import annotations

import numpy as np
import pytest

from service.analysis.drift import is_gradual

QUIET = [0.0] * 8
ERROR = 0.0006
"""Standard error of the mean of twelve cells with a noise of 0.2 %."""
RAMP = [-0.0025 * (night + 1) for night in range(6)]


def gradual(moved: list[float], seed: int) -> bool:
    levels = np.array([*QUIET, *moved])
    noise = np.random.default_rng(seed).normal(0.0, ERROR, len(levels))
    return is_gradual(list(levels + noise), [ERROR] * len(levels), len(moved))


@pytest.mark.parametrize("seed", range(10))
def test_what_moves_a_little_each_night_is_a_drift(seed: int) -> None:
    assert gradual(RAMP, seed)
    assert gradual([*RAMP, *[RAMP[-1]] * 4], seed)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "moved",
    [
        [-0.01] * 6,
        [-0.01] * 3 + [-0.02] * 3,
        [-0.005] * 3 + [-0.01] * 2,
        [0.0] * 3 + [-0.04],
        [-0.01] * 4 + [-0.02] * 2 + [-0.03] * 3,
        [-0.01, 0.0, 0.0],
        [0.0] * 9,
    ],
)
def test_steps_are_none(moved: list[float], seed: int) -> None:
    assert not gradual(moved, seed)


def test_too_little_is_none() -> None:
    assert not is_gradual([*QUIET, -0.0025, -0.005], [1e-6] * 10, 2)
