"""How values vary by step, process, night and node, and what the next night will show."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from datetime import timedelta

import numpy as np
import pytest
from builders.long_forms import long_but
from builders.nested import BEGAN, measured, points
from hypothesis import given, settings
from hypothesis import strategies as st

from service.analysis.variance import MeasuredPoint, Spread, spread_of

FEW = 0.003
share = st.floats(-0.2, 0.2)
series = st.lists(
    st.builds(
        measured,
        st.lists(share, min_size=1, max_size=4),
        st.sampled_from(["n0", "n1", "n2"]),
        st.integers(0, 20),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)


def known(values: list[MeasuredPoint]) -> Spread:
    found = spread_of(values)
    assert found is not None
    return found


@pytest.mark.parametrize("nodes", [1, 3, 5])
def test_each_part_lies_in_its_interval_as_often_as_that_says(nodes: int) -> None:
    truth = {"process": FEW, "night": 1.5 * FEW} | ({"node": 2 * FEW} if nodes > 1 else {})
    held = dict.fromkeys(truth, 0)
    for seed in range(200):
        random = np.random.default_rng(seed)
        drawn, _ = points(random, (FEW, 1.5 * FEW, 2 * FEW), (3, 30 // nodes, nodes))
        parts = known(drawn).parts
        assert parts.keys() == truth.keys()
        for cause, deviation in truth.items():
            held[cause] += parts[cause].low <= deviation <= parts[cause].high
    assert min(held.values()) >= 0.9 * 200


@pytest.mark.parametrize(
    ("deviations", "sizes"),
    long_but(
        [
            ((FEW, 0.0, 0.0), (3, 10, 3)),
            ((FEW, FEW, 0.0), (3, 20, 1)),
            ((FEW, FEW, FEW), (3, 10, 3)),
            ((FEW, FEW, FEW), (1, 6, 5)),
            ((FEW, FEW, 2 * FEW), (3, 4, 7)),
        ],
        0,
        3,
    ),
)
def test_the_next_night_lies_in_its_interval_nineteen_times_of_twenty(
    deviations: tuple[float, float, float], sizes: tuple[int, int, int]
) -> None:
    random = np.random.default_rng(3)
    held = 0
    for _ in range(500):
        drawn, following = points(random, deviations, sizes)
        spread = known(drawn)
        reach = spread.next_night(sizes[0])
        assert reach is not None
        held += abs(following - math.log(spread.level)) <= reach
    assert held / 500 >= 0.92


@given(series, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_points_does_not_matter(values: list[MeasuredPoint], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = known(values), known(shuffled)
    assert other.parts.keys() == one.parts.keys()
    assert other.level == pytest.approx(one.level)
    assert (other.next_night(3) or 0) == pytest.approx(one.next_night(3) or 0, abs=1e-9)


@given(series, st.sampled_from([1e-9, 0.5, 3.0, 1e12]))
@settings(deadline=None)
def test_another_unit_changes_the_level_and_no_part(
    values: list[MeasuredPoint], factor: float
) -> None:
    one = known(values)
    other = known([replace(point, value=point.value * factor) for point in values])
    assert other.level == pytest.approx(one.level * factor)
    assert other.parts.keys() == one.parts.keys()
    for cause, part in one.parts.items():
        assert other.parts[cause].deviation == pytest.approx(part.deviation, abs=1e-6)


@given(series)
@settings(deadline=None)
def test_no_variance_is_negative_and_no_interval_leaves_out_its_part(
    values: list[MeasuredPoint],
) -> None:
    spread = known(values)
    for part in spread.parts.values():
        assert 0 <= part.low <= part.deviation <= part.high < math.inf
    reaches = [spread.next_night(3), spread.repeat(3)]
    reaches += [spread.apart((1, 3), 0.95, same_night=same, same_node=same) for same in (0, 1)]
    assert all(reach is None or 0 <= reach < math.inf for reach in reaches)


def test_one_value_has_no_interval_and_zeros_have_no_shares() -> None:
    one = known([measured([0.1])])
    assert (one.parts, one.next_night(1), one.repeat(1)) == ({}, None, None)
    assert one.apart((1, 1), 0.95, same_night=True, same_node=True) is None
    assert spread_of([]) is None
    assert spread_of([measured([0.1]), replace(measured([0.1]), value=0.0)]) is None


def test_one_night_says_nothing_of_the_next() -> None:
    spread = known([measured([0.0, 0.001, 0.002])])
    assert spread.parts.keys() == {"process"}
    assert spread.next_night(3) is None
    assert spread.apart((3, 3), 0.95, same_night=True, same_node=True) is not None


@pytest.mark.parametrize(
    ("sizes", "causes"),
    [
        ((1, 10, 1), {"process and night"}),
        ((3, 1, 5), {"process", "night and node"}),
        ((1, 10, 3), {"process and night", "node"}),
        ((3, 10, 1), {"process", "night"}),
    ],
)
def test_what_cannot_be_told_apart_has_one_part(
    sizes: tuple[int, int, int], causes: set[str]
) -> None:
    drawn, _ = points(np.random.default_rng(1), (FEW, FEW, FEW), sizes)
    assert known(drawn).parts.keys() == causes


def test_two_runs_of_a_night_tell_processes_from_nights() -> None:
    random = np.random.default_rng(5)
    nights = np.repeat(random.normal(0, 5 * FEW, 15), 2)
    values = [measured([log], night=at // 2) for at, log in
              enumerate(nights + random.normal(0, FEW, 30))]  # fmt: skip
    parts = known(values).parts
    assert parts["process"].deviation == pytest.approx(FEW, rel=0.5)
    assert parts["night"].deviation == pytest.approx(5 * FEW, rel=0.5)


def test_steps_are_a_part_of_what_processes_differ_by() -> None:
    drawn, _ = points(np.random.default_rng(2), (FEW, 0.0, 0.0), (3, 20, 1))
    alone = known(drawn).parts["process"].deviation
    parts = known([replace(point, within=FEW / 2) for point in drawn]).parts
    assert parts["step"].deviation == pytest.approx(FEW / 2)
    assert parts["process"].deviation == pytest.approx(math.sqrt(alone**2 - (FEW / 2) ** 2))


def test_a_change_of_level_is_no_noise_and_its_nodes_are_the_same() -> None:
    drawn, _ = points(np.random.default_rng(4), (FEW, FEW, FEW), (3, 8, 3))
    moved = [
        replace(point, value=point.value * 1.1, level=1, at=point.at + timedelta(days=30))
        if at >= 18
        else point
        for at, point in enumerate(drawn)
    ]
    still, after = known(drawn), known(moved)
    assert after.level == pytest.approx(1.1, rel=0.01)
    for cause, part in still.parts.items():
        assert after.parts[cause].deviation == pytest.approx(part.deviation, rel=0.4)


def test_a_node_that_took_over_at_a_change_is_not_told_from_the_change() -> None:
    before = [measured([0.001 * (at % 3)] * 3, "n0", at) for at in range(8)]
    after = [measured([0.1 + 0.001 * (at % 3)] * 3, "n1", at, 1) for at in range(8, 16)]
    assert "node" not in known(before + after).parts


def test_one_broken_night_does_not_widen_every_interval() -> None:
    drawn, _ = points(np.random.default_rng(6), (FEW, FEW, 0.0), (3, 20, 1))
    broken = [*drawn[:-1], replace(drawn[-1], value=drawn[-1].value * 0.6)]
    calm, wide = (known(values).next_night(3) for values in (drawn, broken))
    assert calm is not None
    assert wide is not None
    assert wide < 3 * calm


@given(series)
@settings(deadline=None)
def test_a_spread_is_stored_and_read_again(values: list[MeasuredPoint]) -> None:
    spread = known(values)
    assert Spread.of(json.loads(json.dumps(asdict(spread)))) == spread


def test_a_night_is_what_one_node_measured_within_half_a_day() -> None:
    late = [replace(measured([0.01 * at]), at=BEGAN + timedelta(hours=5 * at)) for at in range(3)]
    assert known(late).nights == 1
    assert known([*late, replace(late[0], at=BEGAN + timedelta(hours=13))]).nights == 2
