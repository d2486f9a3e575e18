"""Changes of a history beside points of slow workers: believed in their place, and in no other."""

from dataclasses import replace

import numpy as np
import pytest
from builders.watched_series import placed_at, watched

from benchmarks.contracts import Direction
from service.analysis.detection.change import ChangePoint
from service.findings.candidate_changes import made_by_slow_workers
from service.history.series_history import PlacedChange, SeriesHistory, between

SLOW_FROM, SLOW_UNTIL, FASTER_FROM, NIGHTS = 14, 19, 29, 36
ILL = {"a": [(placed_at(SLOW_FROM), placed_at(SLOW_UNTIL))]}


def beside_a_slow_worker(seed: int) -> SeriesHistory:
    """Two workers, one of which was slow for five nights; ten nights later a step up."""
    steps = [0.04 * (night >= FASTER_FROM) for night in range(NIGHTS)]
    history = watched(steps, seed, workers=("a", "b"))
    points = tuple(
        replace(point, value=point.value * 0.95)
        if point.worker == "a" and placed_at(SLOW_FROM) <= point.revision_at < placed_at(SLOW_UNTIL)
        else point
        for point in history.recent.points
    )
    recent = replace(history.recent, points=points)
    return replace(history, recent=recent, values=tuple(point.value for point in points))


def placed(history: SeriesHistory, night: int) -> PlacedChange:
    """The step up, as an analysis may place it; its levels are those of the step."""
    of_step = ChangePoint(
        index=2 * night,
        effect=0.041,
        effect_low=0.039,
        effect_high=0.043,
        before=100.0,
        after=float(100.0 * np.exp(0.04)),
        improvement=True,
        confidence=0.99,
        evidence=9.0,
    )
    return between(history.recent, of_step, 2 * night)


@pytest.mark.parametrize("seed", range(20))
def test_a_step_is_believed_where_it_is_and_not_where_slow_points_moved_it(seed: int) -> None:
    history = beside_a_slow_worker(seed)
    assert history.series.direction is Direction.HIGHER
    assert not made_by_slow_workers(history, placed(history, FASTER_FROM), ILL)
    for night in (SLOW_UNTIL + 3, 24, FASTER_FROM - 2):
        assert made_by_slow_workers(history, placed(history, night), ILL), night
    assert not made_by_slow_workers(history, placed(history, 24), {}), "nobody was slow"
