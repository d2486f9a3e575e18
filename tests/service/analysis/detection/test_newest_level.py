"""What is said while the newest level has few points yet, of it and of what lies before."""

import numpy as np
import pytest

from service.analysis.detection.change import ChangePoint
from service.analysis.detection.history import History
from service.analysis.detection.robust import Floats
from service.analysis.detection.windows import Detection, detect

RUNS = 30


def analysed(levels: Floats, noise: float, seed: int) -> Detection:
    """What is said of these levels with so much noise."""
    random = np.random.default_rng((31, seed))
    return detect(History.of(levels * np.exp(random.normal(0, noise, len(levels)))))


def misses(changes: list[ChangePoint], effect: float) -> int:
    """How many intervals do not hold the effect."""
    return sum(not change.effect_low <= effect <= change.effect_high for change in changes)


@pytest.mark.parametrize("points", [4, 5, 6])
@pytest.mark.parametrize("effect", [-0.1, -0.2, 0.08])
def test_a_change_of_a_few_points_is_as_large_as_it_is(effect: float, points: int) -> None:
    levels = np.repeat([100.0, 100.0 * (1 + effect)], [60, points])
    changes = []
    for seed in range(RUNS):
        analysed_changes = analysed(levels, 0.003, seed).change_points
        changes += [change for change in analysed_changes if change.index == 60]
    assert len(changes) >= RUNS - 1
    assert np.mean([change.effect for change in changes]) == pytest.approx(effect, rel=0.01)
    assert misses(changes, effect) <= RUNS / 5  # 95 % of them hold it, if the noise were known


@pytest.mark.parametrize(("fresh", "points"), [(0.01, 5), (0.01, 8), (0.02, 4)])
@pytest.mark.parametrize("noise", [0.001, 0.003])
def test_a_fresh_step_is_no_slope_that_moves_older_effects(
    fresh: float, points: int, noise: float
) -> None:
    levels = np.repeat([100.0, 105.0, 105.0 * (1 + fresh)], [30, 40, points])
    analyses = [analysed(levels, noise, seed) for seed in range(RUNS)]
    drifting = sum(
        analysis.noise is not None and analysis.noise.drift_per_point != 0 for analysis in analyses
    )
    assert drifting <= 1
    old = [
        change
        for analysis in analyses
        for change in analysis.change_points
        if abs(change.index - 30) <= 2
    ]
    assert len(old) == RUNS
    # What is no level yet is a part of the one before: a sixth of its points, one percent higher.
    assert misses(old, 0.05) <= RUNS / 3


def test_a_slope_that_stays_is_one() -> None:
    levels = np.repeat([100.0, 95.0], [100, 80]) * np.exp(np.arange(180) * 0.0003)
    analyses = [analysed(levels, 0.005, seed) for seed in range(RUNS)]
    slopes = [analysis.noise.drift_per_point for analysis in analyses if analysis.noise]
    assert np.median(slopes) == pytest.approx(0.0003, rel=0.1)
    assert sum(len(analysis.change_points) for analysis in analyses) <= RUNS + 3
