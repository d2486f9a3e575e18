"""Steps that are undone and come back."""

from __future__ import annotations

import numpy as np
import pytest

from service.analysis.detection.alarms import replay
from service.analysis.detection.history import History
from service.analysis.detection.support import Support, confirmed
from service.analysis.detection.windows import detect

FIRST, DROPPED = 14, 8


def history(seed: int, back: int, *after: int, noise: float = 0.003) -> History:
    """A rate that drops by 5 % for 8 points, is back for ``back``, and drops again."""
    lengths = [FIRST, DROPPED, back, *(after or (15,))]
    levels = np.repeat(np.resize([300.0, 285.0], len(lengths)), lengths)
    rng = np.random.default_rng((seed, back))
    return History.of(levels * np.exp(rng.normal(0, noise, len(levels))), "higher")


def places(of: History, supports: dict[int, Support] | None = None) -> list[int]:
    return [change.index for change in detect(of, supports=supports or {}).change_points]


@pytest.mark.parametrize("back", [7, 8, 10, 12, 16, 24])
def test_a_regression_that_comes_back_after_its_revert_is_found(back: int) -> None:
    second = FIRST + DROPPED + back
    for seed in range(10):
        assert places(history(seed, back)) == [FIRST, FIRST + DROPPED, second]


def test_it_is_announced_within_eleven_points() -> None:
    for seed in range(5):
        alarms = [(alarm.change.index, alarm.at) for alarm in replay(history(seed, 8))]
        assert [at - index + 1 for index, at in alarms if index == FIRST + DROPPED + 8] == [11]


def test_two_bad_stretches_that_are_over_are_still_doubted() -> None:
    found = [places(history(seed, 30, 8, 60)) for seed in range(10)]
    assert sum(map(bool, found)) <= 2


@pytest.mark.parametrize("back", [1, 2, 4, 6])
def test_a_confirmed_step_stands_however_short_its_levels_are(back: int) -> None:
    second = FIRST + DROPPED + back
    facts = {FIRST: confirmed(-0.05), second: confirmed(-0.05)}
    for seed in range(5):
        of = history(seed, back)
        assert places(of, facts) == [FIRST, FIRST + DROPPED, second]
        assert places(of.first(second + 1), facts) == [FIRST, FIRST + DROPPED, second]


def small_step() -> History:
    values = np.repeat([100.0, 100.8], [60, 60])
    return History.of(values * np.exp(np.random.default_rng(3).normal(0, 0.01, 120)))


def test_a_history_that_went_the_other_way_is_not_bound() -> None:
    assert places(small_step(), {60: confirmed(-0.05)}) == []
    assert places(small_step(), {60: confirmed(0.05)}) == [60]


def test_support_finds_what_is_too_weak_alone() -> None:
    assert places(small_step()) == []
    near = range(50, 71)
    assert places(small_step(), dict.fromkeys(near, Support(rise=3.0)))
    assert places(small_step(), dict.fromkeys(near, Support(fall=3.0))) == []


def test_two_facts_in_the_first_ten_points_are_two_changes() -> None:
    levels = np.repeat([300.0, 285.0, 300.0], [7, 5, 8])
    noisy = levels * np.exp(np.random.default_rng(3).normal(0, 0.003, len(levels)))
    known = {7: confirmed(-0.05), 12: confirmed(0.05)}
    assert places(History.of(noisy, "higher"), known) == [7, 12]


def reverted(seed: int, stayed: int, back: int, noise: float = 0.0017) -> History:
    """A rate that drops by 5 % after seven points and is back soon, on three machines."""
    lengths = [7, stayed, back]
    rng = np.random.default_rng((seed, stayed, back))
    values = np.repeat([300.0, 285.0, 300.0], lengths)
    machines = rng.integers(0, 3, len(values))
    values *= np.array([1.0, 1.004, 0.997])[machines] * np.exp(rng.normal(0, noise, len(values)))
    return History.of(values, "higher", [f"m{number}" for number in machines])


@pytest.mark.parametrize(("stayed", "back"), [(3, 5), (3, 9), (5, 3), (5, 5), (5, 9)])
def test_the_revert_of_a_confirmed_drop_is_found_within_days(stayed: int, back: int) -> None:
    for seed in range(20):
        found = places(reverted(seed, stayed, back), {7: confirmed(-0.05)})
        assert found == [7, 7 + stayed]


def test_noise_after_a_confirmed_drop_is_no_revert() -> None:
    for seed in range(40):
        for count in range(3, 12):
            rng = np.random.default_rng((seed, count))
            values = np.repeat([300.0, 297.0], [7, count]) * np.exp(rng.normal(0, 0.003, 7 + count))
            assert places(History.of(values, "higher"), {7: confirmed(-0.01)}) == [7]
