"""What must hold for every history."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.analysis.detection.history import History
from service.analysis.detection.robust import Floats
from service.analysis.detection.windows import CONTEXT, STRIDE, Detection, detect, extend

QUICK = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)


def walk(seed: int, count: int = 150) -> Floats:
    """Noise with a few steps of any size."""
    rng = np.random.default_rng(seed)
    level = np.zeros(count)
    for place in rng.integers(10, count - 10, rng.integers(0, 4)):
        level[place:] += rng.normal(0, 0.05)
    return 100 * np.exp(level + rng.normal(0, rng.choice([0.003, 0.01, 0.03]), count))


def places(analysed: Detection) -> list[int]:
    return [change.index for change in analysed.change_points]


@QUICK
@given(seeds, st.floats(1e-9, 1e9))
def test_the_unit_does_not_matter(seed: int, factor: float) -> None:
    values = walk(seed)
    one, other = detect(History.of(values)), detect(History.of(values * factor))
    assert places(one) == places(other)
    for a, b in zip(one.change_points, other.change_points, strict=True):
        assert a.effect == pytest.approx(b.effect, rel=1e-6)
        assert a.before * factor == pytest.approx(b.before, rel=1e-6)


@QUICK
@given(seeds)
def test_direction_turns_only_what_is_better(seed: int) -> None:
    values = walk(seed)
    lower, higher = detect(History.of(values, "lower")), detect(History.of(values, "higher"))
    assert places(lower) == places(higher)
    for a, b in zip(lower.change_points, higher.change_points, strict=True):
        assert a.improvement != b.improvement
        assert a.effect == b.effect


@QUICK
@given(seeds)
def test_a_rate_and_its_time_change_at_the_same_places(seed: int) -> None:
    values = walk(seed)
    times, rates = detect(History.of(values)), detect(History.of(1 / values, "higher"))
    assert places(times) == places(rates)
    for a, b in zip(times.change_points, rates.change_points, strict=True):
        assert (1 + a.effect) * (1 + b.effect) == pytest.approx(1)
        assert a.improvement == b.improvement


@QUICK
@given(seeds)
def test_mirrored_values_are_analysed_alike(seed: int) -> None:
    values = walk(seed)
    one, other = detect(History.of(values)), detect(History.of(-values, "higher"))
    assert places(one) == places(other)
    assert [c.improvement for c in one.change_points] == [
        c.improvement for c in other.change_points
    ]


@QUICK
@given(seeds)
def test_names_of_machines_do_not_matter(seed: int) -> None:
    values = walk(seed)
    which = np.random.default_rng(seed).integers(0, 3, len(values))
    one = History.of(values, "lower", [f"a{m}" for m in which])
    other = History.of(values, "lower", [f"z{9 - m}" for m in which])
    assert places(detect(one)) == places(detect(other))


@QUICK
@given(seeds)
def test_equal_points_may_change_places(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(walk(seed))
    order = np.arange(len(values))
    for value in np.unique(values):
        equal = np.flatnonzero(values == value)
        order[equal] = rng.permutation(equal)
    assert detect(History.of(values)) == detect(History.of(values[order]))


@QUICK
@given(seeds, st.integers(1, 900))
def test_points_added_one_by_one_or_at_once_give_the_same(seed: int, cut: int) -> None:
    history = History.of(walk(seed, 1000))
    begun = detect(history.first(cut))
    assert extend(begun, history) == detect(history)


@QUICK
@given(seeds, st.integers(1, 300))
def test_a_new_point_never_rewrites_the_distant_past(seed: int, more: int) -> None:
    values = walk(seed, 1200)
    before, after = detect(History.of(values[:900])), detect(History.of(values[: 900 + more]))
    settled = (900 - CONTEXT) // STRIDE * STRIDE - CONTEXT // 2
    assert [c for c in before.change_points if c.index < settled] == [
        c for c in after.change_points if c.index < settled
    ]


@QUICK
@given(st.lists(st.floats(-1e150, 1e150), max_size=60))
def test_any_finite_numbers_get_an_answer(values: list[float]) -> None:
    analysed = detect(History.of(values))
    for change in analysed.change_points:
        assert 0 < change.index < len(values)
        assert 0 < change.confidence < 1
