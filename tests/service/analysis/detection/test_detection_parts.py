"""Fast parts against slow obvious ones, and parts by themselves."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.analysis.detection import robust, segment_model, window
from service.analysis.detection.change import smallest_step
from service.analysis.detection.evidence import (
    NEAR,
    NoiseOf,
    Sums,
    evidence,
    evidence_at,
    sides,
    telling_sides,
)
from service.analysis.detection.history import History
from service.analysis.detection.prediction import Expectation, expectation
from service.analysis.detection.robust import Floats
from service.analysis.detection.segment_model import THRESHOLD, Step, completed, doubt, significant
from service.analysis.detection.support import confirmed
from service.analysis.detection.window import explain_window
from service.analysis.detection.windows import STRIDE, detect

QUICK = settings(max_examples=20, deadline=None, derandomize=True)


def slow_cuts(y: Floats, noise: float, shortest: int = segment_model.SHORTEST) -> list[int]:
    """Optimal cuts by definition, cubic."""
    count = len(y)
    if count < 2 * shortest:
        return []
    lowest = [0.0] + [float("inf")] * count
    before = [0] * (count + 1)
    for end in range(shortest, count + 1):
        for start in range(end - shortest + 1):
            part = y[start:end]
            cost = float(np.sum((part - part.mean()) ** 2)) + segment_model.PRICE * noise * noise
            if lowest[start] + cost < lowest[end]:
                lowest[end] = lowest[start] + cost
                before[end] = start
    places = [before[-1]]
    while places[-1] > 0:
        places.append(before[places[-1]])
    return places[-2::-1]


def slow_significant(
    y: Floats, proposed: Sequence[int], noise: NoiseOf, threshold: float = THRESHOLD
) -> list[Step]:
    """Standing changes, weighing everything anew after each merge."""
    kept = list(proposed)
    while True:
        borders = [0, *kept, len(y)]
        weights = [weigh(Sums(y), borders, at, noise) for at in range(1, len(borders) - 1)]
        if not weights or min(weights) >= threshold:
            steps = list(zip(kept, weights, strict=True))
            return completed(Sums(y), steps, proposed, noise, threshold)
        del kept[weights.index(min(weights))]


def weigh(sums: Sums, borders: Sequence[int], at: int, noise: NoiseOf) -> float:
    evidence = evidence_at(sums, *borders[at - 1 : at + 2], noise)
    return evidence - doubt(sums, borders, at) if evidence else 0.0


def noisy(seed: int, count: int) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, count) + np.where(np.arange(count) > count // 2, rng.normal(0, 3), 0)


@QUICK
@given(st.integers(0, 9999), st.integers(0, 60))
def test_partitioning_equals_its_definition(seed: int, count: int) -> None:
    y = noisy(seed, count)
    assert segment_model.cuts(y, 1.0) == slow_cuts(y, 1.0)


def test_partitioning_is_the_best_of_all_partitions() -> None:
    y = noisy(5, 17)

    def cost(cuts: tuple[int, ...]) -> float:
        borders = [0, *cuts, len(y)]
        parts = [y[a:b] for a, b in itertools.pairwise(borders)]
        if min(len(part) for part in parts) < segment_model.SHORTEST:
            return np.inf
        return sum(float(((p - p.mean()) ** 2).sum()) for p in parts) + segment_model.PRICE * len(
            cuts
        )

    every = [cuts for k in range(3) for cuts in itertools.combinations(range(1, 17), k)]
    assert tuple(segment_model.cuts(y, 1.0)) == min(every, key=cost)


@pytest.mark.parametrize(("last", "stands"), [(0.03, True), (0.006, False)])
def test_a_pair_is_not_completed_at_the_cost_of_the_next_change(last: float, stands: bool) -> None:
    """What lies between the way back and the next change is too short for a small one."""
    levels = np.repeat([0.0, -0.03, 0.0, last], [60, 12, 10, 60])
    sums, noise = (
        Sums(levels + np.random.default_rng(5).normal(0, 0.003, len(levels))),
        NoiseOf(0.003, 0.0),
    )
    alone = [(60, 6.0), (82, 6.0)]
    whole = completed(sums, alone, [60, 72, 82], noise, THRESHOLD)
    assert [place for place, _ in whole] == ([60, 72, 82] if stands else [60, 82])
    assert all(weight >= THRESHOLD for _, weight in whole)
    borders = [0, *(place for place, _ in whole), len(levels)]
    for at, (place, weight) in enumerate(whole if stands else []):
        assert weight <= evidence_at(sums, borders[at], place, borders[at + 2], noise)


@QUICK
@given(st.integers(0, 9999), st.integers(10, 150))
def test_merging_equals_weighing_everything_anew(seed: int, count: int) -> None:
    y = noisy(seed, count)
    proposed = segment_model.cuts(y, 0.5)
    assert significant(y, proposed, NoiseOf(1.0, 0.2)) == slow_significant(
        y, proposed, NoiseOf(1.0, 0.2)
    )


@QUICK
@given(st.integers(0, 9999))
def test_merging_steps_that_come_back_equals_weighing_everything_anew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(6, 14, 9)
    levels = np.resize([0.0, 1.5], 9) + rng.choice([0.0, 0.4], 9)
    y = np.repeat(levels, lengths) + rng.normal(0, 1, int(lengths.sum()))
    proposed = sorted({*np.cumsum(lengths)[:-1].tolist(), *segment_model.cuts(y, 0.5)})
    noise = NoiseOf(1.0, 0.0)
    assert significant(y, proposed, noise, 0.5) == slow_significant(y, proposed, noise, 0.5)


@QUICK
@given(st.integers(0, 9999))
def test_running_sums_equal_sums(seed: int) -> None:
    y = noisy(seed, 40)
    mean, rest, tilt = Sums(y).part(7, 29)
    part = y[7:29]
    assert mean + Sums(y).first == pytest.approx(part.mean())
    assert rest == pytest.approx(float(((part - part.mean()) ** 2).sum()))
    assert tilt == pytest.approx(float((np.arange(22) - 10.5) @ part))


def test_evidence_grows_with_the_step_and_with_points() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, 120)

    def weigh(step: float, points: int) -> float:
        y = noise[: 60 + points].copy()
        y[60:] += step
        return evidence(sides(Sums(y), 0, 60, len(y)), NoiseOf(0.01, 0.0))

    assert weigh(0.01, 50) < weigh(0.02, 50) < weigh(0.04, 50)
    assert weigh(0.03, 6) < weigh(0.03, 20) < weigh(0.03, 50)


@pytest.mark.parametrize(("step", "seen_from_near"), [(0.04, True), (0.01, False)])
def test_a_clear_step_after_a_restless_past_is_seen_from_near(
    step: float, seen_from_near: bool
) -> None:
    y = np.random.default_rng(0).normal(0, 0.003, 80)
    y[:40] += 0.1 * np.tile(np.repeat([1.0, -1.0], 5), 4)
    y[60:] += step
    sums, noise = Sums(y), NoiseOf(0.003, 0.5)
    far, seen = evidence(sides(sums, 0, 60, 80), noise), evidence_at(sums, 0, 60, 80, noise)
    assert far < THRESHOLD
    assert (seen > far) == seen_from_near
    assert (seen >= THRESHOLD) == seen_from_near
    telling = telling_sides(sums, (0, 60, 80), noise, THRESHOLD)
    assert (telling.left == NEAR) == seen_from_near


def test_what_is_seen_from_far_is_told_from_far() -> None:
    y = np.repeat([0.0, 0.05], 60) + np.random.default_rng(3).normal(0, 0.003, 120)
    telling = telling_sides(Sums(y), (0, 60, 120), NoiseOf(0.003, 0.0), THRESHOLD)
    assert (telling.left, telling.right) == (60, 60)


def test_a_line_is_no_step() -> None:
    y = np.linspace(0, 0.1, 100) + np.random.default_rng(0).normal(0, 0.001, 100)
    assert evidence(sides(Sums(y), 0, 50, 100), NoiseOf(0.001, 0.0)) == 0.0


def test_autocorrelation_is_told_through_steps() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(0, 1, 4000)
    for i in range(1, len(y)):
        y[i] += 0.5 * y[i - 1]
    y[2000:] += 50
    assert robust.autocorrelation(y) == pytest.approx(0.5, abs=0.08)
    assert robust.autocorrelation(rng.normal(0, 1, 4000)) < 0.1


def test_outliers_are_pulled_back_and_steps_are_not() -> None:
    y = np.random.default_rng(2).normal(0, 0.01, 100)
    y[50:] += 1.0
    y[20] = 1e6
    cleaned, scale = robust.clipped(y)
    assert abs(cleaned[20]) < 0.1
    assert scale == pytest.approx(0.01, rel=0.4)
    assert cleaned[55:].mean() == pytest.approx(1.0, abs=0.01)


def test_jumps_between_modes_are_followed_through_a_change() -> None:
    rng = np.random.default_rng(3)
    upper = np.cumsum(rng.random(200) < 0.15) % 2 == 1
    y = rng.normal(0, 0.01, 200) + 0.06 * upper + 0.02 * (np.arange(200) >= 100)
    distance, noise, share = window.jumps(y)
    assert distance == pytest.approx(0.06, rel=0.1)
    followed = window.follow(y, distance, noise, share)
    assert min(np.mean(followed == upper), np.mean(followed != upper)) < 0.05


def test_more_noise_hides_more() -> None:
    steps = [smallest_step(NoiseOf(scale, 0.0)) for scale in (0.003, 0.01, 0.03)]
    assert steps == sorted(steps)
    assert smallest_step(NoiseOf(0.01, 0.6)) > steps[1]
    assert smallest_step(NoiseOf(0.01, 0.0), points_after=40) < steps[1]
    assert smallest_step(NoiseOf(0.01, 0.0), 12) > smallest_step(NoiseOf(0.01, 0.0), 12, 10, 4.0)
    assert math.isinf(smallest_step(NoiseOf(0.01, 0.0), 0))


@QUICK
@given(st.integers(0, 9999), st.integers(1, 6))
def test_machines_of_other_stretches_change_nothing(seed: int, machines: int) -> None:
    """In a long history the machines of one stretch have any numbers, with gaps."""
    y = noisy(seed, 80)
    groups = np.random.default_rng(seed).integers(0, machines, len(y))
    alone, among = explain_window(y, groups), explain_window(y, 1000 + 7 * groups)
    assert set(alone.offsets) == set(groups.tolist())
    assert among.offsets == {1000 + 7 * number: offset for number, offset in alone.offsets.items()}
    assert among.changes == alone.changes
    assert np.array_equal(among.y, alone.y)


def expected_after(history: History) -> Expectation | None:
    found = detect(history).change_points
    return expectation(history, {change.index: confirmed(change.effect) for change in found})


def test_a_new_point_is_expected_within_its_interval() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(100, 1, 400)
    surprises = 0
    for count in range(100, 400, 3):
        history = History.of(values[:count])
        expected = expected_after(history)
        assert expected is not None
        assert expected.surprised_by(110.0)
        surprises += expected.surprised_by(float(values[count]))
    assert surprises <= 4


@pytest.mark.parametrize("slope", [-0.001, 0.0005])
def test_what_drifts_is_expected_to_go_on_and_surprises_nobody(slope: float) -> None:
    surprises = 0
    for seed in range(12):
        noise = np.random.default_rng(seed).normal(0, 0.003, 131)
        values = 100 * np.exp(slope * np.arange(131) + noise)
        values[60:] *= 0.95  # a series without a change is never told as one that drifts
        history = History.of(values[:-1])
        analysed = detect(history)
        assert analysed.noise is not None
        assert analysed.noise.drift_per_point == pytest.approx(slope, rel=0.25)
        expected = expected_after(history)
        assert expected is not None
        surprises += expected.surprised_by(float(values[-1]))
        assert expected.surprised_by(float(values[-1]) * 1.03)
    assert surprises <= 1


def test_nothing_is_expected_of_a_young_level() -> None:
    values = np.array([100.0, 101.0, 100.0])
    assert expected_after(History.of(values)) is None


@pytest.mark.parametrize("points", [5, 8, 20])
def test_a_young_level_is_watched_as_closely_as_the_stretch_is_known(points: int) -> None:
    rng = np.random.default_rng(points)
    quiet = moved = 0
    for _ in range(200):
        values = 100.0 * np.exp(rng.normal(0.0, 0.002, 31))
        values[30 - points :] *= 0.98
        known = {30 - points: confirmed(-2.0)}
        expected = expectation(History.of(values[:30]), known)
        assert expected is not None
        quiet += expected.surprised_by(float(values[30]))
        moved += expected.surprised_by(float(values[30]) * 0.99)
    assert quiet <= 4
    assert moved >= 150


@pytest.mark.parametrize(
    "values", [[1e-100, 1e100] * 3, [5e-324, 1e100] * 3, [-1e-100, -1e100] * 3]
)
def test_what_varies_beyond_every_bound_surprises_nobody(values: list[float]) -> None:
    history = History.of(values)
    expected = expected_after(history)
    assert expected is not None
    assert not any(expected.surprised_by(value) for value in values)


@pytest.mark.parametrize("place", range(STRIDE - 6, STRIDE + 7, 3))
def test_a_change_where_two_windows_meet_is_found_once(place: int) -> None:
    values = np.random.default_rng(place).normal(100, 1, 700)
    values[place:] *= 1.05
    places = [change.index for change in detect(History.of(values)).change_points]
    assert len(places) == 1
    assert abs(places[0] - place) <= 2
