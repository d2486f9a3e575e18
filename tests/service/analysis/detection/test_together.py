"""Histories of one suite, judged with each other as witnesses."""

from __future__ import annotations

import numpy as np
import pytest

from service.analysis.detection.history import History
from service.analysis.detection.together import Member, detect_together, support_of
from service.analysis.detection.windows import detect

COUNT, AT, NOISE = 120, 70, 0.01


def member(seed: int, step: float, at: int = AT, measure: str = "", place: str = "") -> Member:
    rng = np.random.default_rng(seed)
    values = 100.0 * np.exp(rng.normal(0.0, NOISE, COUNT) + step * (np.arange(COUNT) >= at))
    return Member(History.of(values), tuple(range(COUNT)), measure or f"m{seed}", place)


def places(members: list[Member]) -> list[list[int]]:
    return [[change.index for change in one.change_points] for one in detect_together(members)]


def alone(members: list[Member]) -> list[list[int]]:
    return [[change.index for change in detect(one.history).change_points] for one in members]


def near(found: list[int], at: int = AT) -> bool:
    return any(abs(place - at) <= 5 for place in found)


def test_witnesses_show_what_a_history_alone_does_not() -> None:
    weak = [member(seed, 0.008) for seed in range(100, 120)]
    sure = [member(seed, 0.03) for seed in range(8)]
    assert all(near(found) for found in alone(sure))
    by_itself = sum(near(found) for found in alone(weak))
    with_witnesses = sum(near(found) for found in places(weak + sure)[: len(weak)])
    assert with_witnesses >= by_itself + 4


def test_each_history_keeps_changes_of_its_own() -> None:
    members = [member(seed, 0.03, 20 + 8 * seed) for seed in range(10)]
    assert places(members) == alone(members)


@pytest.mark.parametrize("same", [False, True])
def test_independent_noise_gives_no_more_false_alarms_than_alone(*, same: bool) -> None:
    measure = "one" if same else ""
    members = [
        member(seed, 0.0, measure=measure, place=str(seed) if same else "") for seed in range(60)
    ]
    assert sum(map(len, places(members))) <= sum(map(len, alone(members)))


def test_the_order_of_histories_changes_nothing() -> None:
    members = [member(seed, 0.009 + 0.002 * (seed % 5)) for seed in range(12)]
    turned = places(members[::-1])[::-1]
    assert turned == places(members)


def test_a_small_step_that_no_other_place_shows_is_left_out() -> None:
    others = [member(seed, 0.0, measure="copy", place=str(seed)) for seed in range(3)]
    small = member(50, 0.02, measure="copy", place="own")
    large = member(51, 0.05, measure="copy", place="own")
    other_measure = member(50, 0.02, measure="other", place="own")
    assert [near(found) for found in alone([small, large, other_measure])] == [True] * 3
    for one, stands in ((small, False), (large, True), (other_measure, True)):
        assert near(places([one, *others])[0]) == stands
    shown = member(3, 0.02, measure="copy", place="3")
    assert near(places([small, shown, *others[:2]])[0])


def test_more_witnesses_that_changed_support_more_and_others_less() -> None:
    few, many, diluted = support_of(np.array([1.0, 4.0, 4.0]), np.array([5.0, 5.0, 80.0]))
    assert many > few > 0.0
    assert many > diluted
    assert support_of(np.zeros(1), np.array([9.0]))[0] == 0.0


def test_histories_of_other_lengths_meet_at_their_positions() -> None:
    late = member(7, 0.03)
    short = Member(History.of(late.history.values[50:]), late.positions[50:], "short")
    empty = Member(History.of([]), (), "empty")
    found = places([late, short, empty])
    assert near(found[0])
    assert near(found[1], AT - 50)
    assert found[2] == []
