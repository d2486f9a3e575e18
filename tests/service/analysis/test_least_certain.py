"""The least certain levels are measured again first, by whom they were measured least."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from service.analysis.least_certain import UncertainLevel, least_certain, width_of
from service.analysis.variance import MeasuredPoint, Spread, spread_of

WIDTHS = st.floats(0, 1) | st.just(math.inf)
POINTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9))
LEVELS = st.lists(
    st.builds(UncertainLevel, st.uuids().map(str), WIDTHS, st.integers(1, 5), POINTS), max_size=12
)


@given(LEVELS, st.integers(0, 12))
def test_never_beyond_the_budget_and_the_widest_first(
    levels: list[UncertainLevel], budget: int
) -> None:
    chosen = least_certain(levels, budget)
    left = budget - sum(level.processes for level, _ in chosen)
    assert left >= 0
    taken = [worker for _, worker in chosen]
    assert len(taken) == len(set(taken)), "one level for each worker"
    widths = [level.width for level, _ in chosen]
    assert widths == sorted(widths, reverse=True)
    for level in levels:
        if level not in [one for one, _ in chosen]:
            wider = [one for one in chosen if one[0].width >= level.width]
            free = level.points.keys() - {worker for _, worker in wider}
            spent = sum(one.processes for one, _ in wider)
            assert not free or level.processes > budget - spent


@given(LEVELS)
def test_each_goes_to_the_free_worker_that_measured_it_least(levels: list[UncertainLevel]) -> None:
    free = {worker for level in levels for worker in level.points}
    for level, worker in least_certain(levels, 1_000):
        assert level in levels
        assert level.points[worker] == min(
            level.points[name] for name in free & level.points.keys()
        )
        free.remove(worker)


def spread(*nodes: str, noise: float = 0.01, nights: int = 6) -> Spread | None:
    """How values vary that each of these nodes measured on so many nights."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    points = [
        MeasuredPoint(100 * (1 + noise * (-1) ** night), 3, noise, None, node, start + day)
        for node in nodes
        for night in range(nights)
        for day in [timedelta(days=night)]
    ]
    return spread_of(points)


def test_a_level_is_less_certain_with_more_noise_fewer_nights_and_fewer_nodes() -> None:
    usual = width_of(spread("a", "b", "c"))
    assert 0 < usual < width_of(spread("a", "b", "c", noise=0.05))
    assert usual < width_of(spread("a", "b", "c", nights=2))
    assert usual < width_of(spread("a", "b"))
    assert width_of(spread("a", nights=1)) == width_of(None) == math.inf


def test_levels_of_one_width_have_one_order() -> None:
    levels = [UncertainLevel(name, 0.1, 1, {"w": 0}) for name in "ba"]
    assert least_certain(levels, 9) == least_certain(levels[::-1], 9) == [(levels[1], "w")]
    assert least_certain([replace(levels[0], processes=2)], 1) == []
