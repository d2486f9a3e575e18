"""Tests what is a drift, and what is one step after the other."""

from __future__ import annotations

import numpy as np
import pytest

from service.analysis.drift import is_gradual, step_beside_drift

Side = list[tuple[float, float]]
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


NOISE = 0.0025
"""Standard deviation of one cell in a night, as a share."""


def drifting(seed: int, *, step: float, nights: int, slope: float = -0.0025) -> tuple[Side, Side]:
    """Six quiet nights, five of a drift, then more of it beside a step."""
    rng = np.random.default_rng(seed)
    levels = [(at, slope * max(0, at + 6) + step * (at >= 0)) for at in range(-11, nights)]
    noisy = [(at, level + rng.normal(0.0, NOISE)) for at, level in levels]
    return [one for one in noisy if -7 <= one[0] < 0], [one for one in noisy if one[0] >= 0]


@pytest.mark.parametrize("nights", [3, 5, 7])
@pytest.mark.parametrize("step", [0.0, -0.02, 0.02])
def test_a_drift_is_no_part_of_the_step_beside_it(nights: int, step: float) -> None:
    found = [
        step_beside_drift(*drifting(seed, step=step, nights=nights), NOISE) for seed in range(40)
    ]
    parted = [one for one in found if one is not None]
    assert len(parted) >= 30
    wrong = [abs(one.step - step) / one.error for one in parted]
    assert sum(one < 2.5 for one in wrong) >= 0.9 * len(wrong)
    assert all(-0.005 < one.slope < -0.001 for one in parted)


@pytest.mark.parametrize("step", [0.0, -0.01, -0.05])
def test_a_step_alone_drifts_seldom(step: float) -> None:
    found = [
        step_beside_drift(*drifting(seed, step=step, nights=6, slope=0.0), NOISE)
        for seed in range(200)
    ]
    assert sum(one is not None for one in found) <= 8


def test_one_night_on_each_side_tells_no_drift() -> None:
    assert step_beside_drift([(-1, 0.0), (-1, 0.001)], [(0, -0.02)], NOISE) is None
