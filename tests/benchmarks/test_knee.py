"""The knee is found where it was planted, and not told where there is none."""

import math
import random

import pytest

from benchmarks.diagnosis.knee import Curve, SizePoint, curve

SIZES = (8, 16, 32, 64, 128, 256)


def judged(*rates: float, sizes: tuple[float, ...] = SIZES, half: float = 0.0) -> Curve:
    points = [
        SizePoint(size, rate, half * rate)
        for size, rate in zip(sizes[: len(rates)], rates, strict=True)
    ]
    random.Random(0).shuffle(points)
    found = curve(points)
    assert found is not None
    return found


def knee_of(found: Curve) -> float | None:
    return found.knee and found.knee.size


def test_a_saturating_curve_has_its_knee_where_five_per_cent_are_missing() -> None:
    found = judged(*(100 * (1 - math.exp(-size / 20)) for size in SIZES), half=0.001)
    assert knee_of(found) == 64  # 1 - exp(-3.2) = 0.959; at 32 it is 0.798
    assert found.at_latest == found.knee
    assert found.beyond == pytest.approx(1 / 0.9592 - 1, abs=1e-3)
    assert found.falls == 0.0


def test_while_throughput_rises_at_the_largest_size_there_is_no_knee() -> None:
    found = judged(100, 195, 370, 680, 1_200, 2_000, half=0.01)
    assert (knee_of(found), found.most.size) == (None, 256)


def test_small_steps_of_size_do_not_hide_that_it_rises() -> None:
    """Four per cent more for each sixteenth of the size: nearly double for a doubling."""
    found = judged(100, 106, 112, 117, sizes=(16, 17, 18, 19))
    assert knee_of(found) is None
    found = judged(100, 190, 195, sizes=(8, 16, 32))  # 2.6 % for a doubling: flat
    assert knee_of(found) == 16


def test_beyond_an_optimum_it_falls_and_the_knee_is_before_it() -> None:
    found = judged(60, 97, 100, 90, 70, half=0.005)
    assert (knee_of(found), found.most.size) == (16, 32)
    assert found.falls == pytest.approx(0.3)
    falling = judged(100, 80, 60)
    assert (knee_of(falling), falling.beyond) == (8, 0.0)


def test_a_dip_on_the_way_up_moves_the_knee_behind_it() -> None:
    assert knee_of(judged(97, 98, 80, 99, 100)) == 64


def test_intervals_say_how_early_and_how_late_the_knee_may_be() -> None:
    sharp, wide = judged(60, 93, 96, 100, half=0.001), judged(60, 93, 96, 100, half=0.02)
    assert (knee_of(sharp), knee_of(wide)) == (32, 32)
    assert sharp.at_earliest == sharp.at_latest == sharp.knee
    assert wide.at_earliest
    assert wide.at_latest
    assert (wide.at_earliest.size, wide.at_latest.size) == (16, 64)


def test_noise_alone_neither_rises_nor_falls_and_the_smallest_may_be_the_knee() -> None:
    random_ = random.Random(7)
    for _ in range(500):
        rates = [100 * (1 + random_.gauss(0, 0.01)) for _ in SIZES]
        found = judged(*rates, half=0.0196)
        assert found.at_earliest
        assert found.at_earliest.size == 8
        assert found.falls == 0.0


def test_noise_moves_a_planted_knee_by_no_more_than_the_intervals_say() -> None:
    random_, right = random.Random(3), 0
    for _ in range(500):
        rates = [rate * (1 + random_.gauss(0, 0.01)) for rate in (40, 70, 98, 100, 100, 100)]
        found = judged(*rates, half=0.0196)
        assert found.knee
        assert found.at_earliest
        assert found.at_latest
        assert found.at_earliest.size <= found.knee.size <= found.at_latest.size
        right += found.at_earliest.size <= 32 <= found.at_latest.size
    assert right >= 0.95 * 500


def test_a_size_of_nothing_is_a_size() -> None:
    assert knee_of(judged(50, 99, 100, sizes=(0, 2, 4))) == 2


def test_two_sizes_make_no_curve() -> None:
    assert curve([SizePoint(1, 10), SizePoint(2, 20)]) is None
