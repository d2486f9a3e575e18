"""What several series say together of one place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from service.analysis.detection.change import Noise
from service.analysis.detection.pooled import STANDS, Common, Witness, pooled, witness

NOISE = 0.01
SERIES = 12


def night(seed: int, nights: int, step: float, moved: int = SERIES, series: int = SERIES) -> Common:
    """The first ``moved`` of some series became ``step`` longer so many nights ago."""
    rng = np.random.default_rng(seed)
    noise = Noise(NOISE, 0.0, 0.02)
    witnesses = []
    for number in range(series):
        before = 100.0 * np.exp(rng.normal(0.0, NOISE, 30))
        after = 100.0 * np.exp(rng.normal(0.0, NOISE, nights) + step * (number < moved))
        witnesses.append(witness(before.tolist(), after.tolist(), noise))
    return pooled(witnesses)


def nights_until_found(seed: int) -> int:
    found = (at for at in range(1, 10) if night(seed, at, math.log1p(0.01)).log_odds >= STANDS)
    return next(found, 10)


def test_a_common_step_of_the_size_of_the_noise_is_found_on_the_second_night() -> None:
    waited = sorted(nights_until_found(seed) for seed in range(60))
    assert waited[len(waited) // 2] <= 2
    assert waited[-3] <= 4


@pytest.mark.parametrize("series", [2, 12, 43])
def test_independent_noise_is_no_common_change(series: int) -> None:
    seen = [night(seed, 1 + seed % 3, 0.0, series=series).log_odds for seed in range(300)]
    assert sum(odds >= STANDS for odds in seen) <= 1


def test_one_series_alone_is_no_common_change() -> None:
    assert night(1, 1, 0.5, moved=1).log_odds < STANDS


def test_the_series_that_moved_are_named() -> None:
    common = night(2, 3, 0.03, moved=4)
    assert common.log_odds > STANDS
    assert min(common.moved[:4]) > 0.9
    assert max(common.moved[4:]) < 0.5
    assert common.difference == pytest.approx(0.03, abs=0.008)
    assert common.evidence == pytest.approx(math.sqrt(2 * common.log_odds))


def test_the_order_of_series_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    witnesses = [Witness(float(rng.normal(0.01, 0.01)), 0.01, str(at % 4)) for at in range(9)]
    turned = pooled(witnesses[::-1])
    straight = pooled(witnesses)
    assert turned.log_odds == pytest.approx(straight.log_odds)
    assert turned.moved[::-1] == pytest.approx(straight.moved)


def test_metrics_of_one_process_are_one_witness() -> None:
    one = Witness(0.01, 0.005, "a")
    alone = pooled([one, Witness(0.012, 0.005, "b")])
    repeated = pooled([one, one, one, Witness(0.012, 0.005, "b")])
    assert repeated.log_odds == pytest.approx(alone.log_odds)
    apart = pooled([replace(one, source=source) for source in "acd"] + [Witness(0.012, 0.005, "b")])
    assert apart.log_odds > alone.log_odds


def test_a_bad_day_that_all_share_is_less_evidence() -> None:
    witnesses = [Witness(0.01, 0.01)] * SERIES
    assert pooled(witnesses, common_noise=0.7).log_odds < pooled(witnesses).log_odds - 1.0


def test_improvements_are_found_like_regressions() -> None:
    rng = np.random.default_rng(4)
    witnesses = [Witness(float(rng.normal(0.01, 0.005)), 0.005) for _ in range(SERIES)]
    mirrored = [replace(one, difference=-one.difference) for one in witnesses]
    assert pooled(mirrored).log_odds == pytest.approx(pooled(witnesses).log_odds)
    assert pooled(mirrored).difference == pytest.approx(-pooled(witnesses).difference)
