"""What moves a series at a place is told from what moves it all along, and from what did before."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders.watched_series import placed_at, watched

from service.findings import causes
from service.findings.rules import AlreadyReported, PendingShift
from service.findings.shift import shift_at, step_at
from service.findings.suspicion import suspicions

PLACE, LAST = 30, 33
SEEDS = 40


def drifting(step: float) -> list[float]:
    """A quarter of a percent with each revision from five before a place on; there, a step."""
    slow = [-0.0025 * max(0, at - PLACE + 6) for at in range(LAST + 1)]
    return [level + step * (at >= PLACE) for at, level in enumerate(slow)]


def supported(step: float, cause: float) -> list[bool]:
    found = [
        step_at(watched(drifting(step), seed), placed_at(PLACE), (), {}) for seed in range(SEEDS)
    ]
    return [
        one is not None and causes.support(cause, one.log, one.error) >= causes.SUPPORT
        for one in found
    ]


def test_a_series_that_drifts_is_not_taken_for_one_that_moved_at_a_place() -> None:
    cause = math.log1p(-0.02)
    assert sum(supported(0.0, cause)) <= 1
    assert sum(supported(-0.02, cause)) >= 0.9 * SEEDS


def test_a_series_that_drifts_one_way_did_not_stay_where_it_moved_the_other_way() -> None:
    """Here both together are smaller than half of the cause."""
    cause = math.log1p(0.02)
    assert sum(supported(0.02, cause)) >= 0.9 * SEEDS
    for seed in range(SEEDS):
        step = step_at(watched(drifting(0.02), seed), placed_at(PLACE), (), {})
        assert step is not None
        assert not causes.stayed(cause, step.log, step.error)


def test_without_a_drift_the_step_is_the_shift() -> None:
    same = 0
    for seed in range(SEEDS):
        history = watched([-0.01 * (at >= PLACE) for at in range(LAST + 1)], seed)
        at = placed_at(PLACE)
        same += step_at(history, at, (), {}) == shift_at(history, at, (), {})
    assert same >= 0.95 * SEEDS


@pytest.mark.parametrize("since", [4, 6])
def test_one_percent_is_suspicious_soon_after_another_change(since: int) -> None:
    """A change of four percent is reported; it has four points, or six."""
    change = PendingShift(PLACE - since, 100.0, 100.0 * math.exp(-0.04))
    covered = AlreadyReported(shifts=(change,))
    levels = [-0.04 * (at >= PLACE - since) for at in range(PLACE + 1)]
    quiet, moved = (
        [
            bool(
                suspicions(
                    watched([*levels[:-1], levels[-1] + step], seed), placed_at(PLACE), covered, {}
                )
            )
            for seed in range(SEEDS)
        ]
        for step in (0.0, -0.01)
    )
    assert np.mean(quiet) <= 0.05
    assert np.mean(moved) >= 0.4
