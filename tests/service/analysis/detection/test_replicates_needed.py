"""How many processes would make one per cent visible."""

import math
from dataclasses import replace

import numpy as np
from builders.nested import measured

from service.analysis.detection.change import Noise
from service.analysis.detection.history import History
from service.analysis.detection.sample_size import TARGET, needed
from service.analysis.detection.windows import detect
from service.analysis.variance import Spread, Square, spread_of
from service.wording.statements import say


def noise(scale: float, effect: float) -> Noise:
    return Noise(scale=scale, autocorrelation=0.0, minimum_detectable_effect=effect)


def spread(process: float, night: float, nights: int = 30) -> Spread:
    """Three processes a night that differ so much, in nights whose means do."""
    of_mean = Square(process**2 / 3, 2 * nights)
    return Spread(1.0, nights, 1.0, 3.0, 1.0, None, of_mean, Square(night**2, nights - 1), None)


def test_more_processes_are_asked_for_as_long_as_they_average_the_noise_away() -> None:
    # Three processes of 1.2 % each make points of 0.7 %: nothing else differs between nights.
    need = needed(noise(0.012 / math.sqrt(3), 0.02), spread(0.012, 0.012 / math.sqrt(3)), 3)
    assert need.replicates is not None
    assert 5 <= need.replicates <= 8
    calmer = needed(noise(0.006, 0.02), spread(0.0087, 0.006), 3)
    assert calmer.replicates is not None
    assert calmer.replicates < need.replicates


def test_noise_that_all_processes_of_a_night_share_cannot_be_averaged_away() -> None:
    need = needed(noise(0.01, 0.02), spread(0.001, 0.01), 3)
    assert need.replicates is None
    assert "No number of processes" in say(need.reason)


def test_what_is_visible_already_needs_nothing_more() -> None:
    assert needed(noise(0.002, 0.006), spread(0.002, 0.002), 3).replicates == 3


def test_single_processes_do_not_say_how_processes_differ() -> None:
    need = needed(noise(0.01, 0.02), replace(spread(0.01, 0.01), process=None), 1)
    assert (need.replicates, "two or more" in say(need.reason)) == (None, True)


def test_nothing_is_promised_of_a_history_that_is_too_short() -> None:
    assert needed(None, None, 1).replicates is None
    assert needed(noise(0.01, math.inf), None, 1).replicates is None
    far = needed(noise(0.5, 0.9), spread(0.5 * math.sqrt(3), 0.5), 3)
    assert far.replicates is None
    assert "processes" in say(far.reason)


def test_nothing_is_promised_of_processes_where_values_have_no_ratios() -> None:
    """Their spread is known as a share of a point's value, which may lie beside zero."""
    need = needed(replace(noise(0.003, 0.02), typical_size=100.0), None, 3)
    assert (need.replicates, "zero" in say(need.reason)) == (None, True)
    shown = needed(replace(noise(0.001, 0.004), typical_size=100.0), None, 3)
    assert shown.replicates == 3


def shows_one_per_cent(random: np.random.Generator, processes: int) -> bool:
    nights = random.normal(0, 0.012, (60, processes)).mean(axis=1)
    step = nights + np.repeat([0.0, math.log1p(TARGET)], [40, 20])
    changes = detect(History.of(np.exp(step))).change_points
    return any(abs(change.index - 40) <= 5 for change in changes)


def test_with_as_many_processes_as_it_says_one_per_cent_is_visible_and_not_with_half_of_them() -> (
    None
):
    """Both are estimates from sixty points: most of the time they agree."""
    shown, halved = [], []
    for seed in range(120):
        random = np.random.default_rng(seed)
        nights = random.normal(0, 0.012, (60, 3))
        before = detect(History.of(np.exp(nights.mean(axis=1)))).noise
        need = needed(
            before, spread_of([measured(night, night=at) for at, night in enumerate(nights)]), 3
        )
        if need.replicates is not None:
            shown.append(shows_one_per_cent(random, need.replicates))
            halved.append(shows_one_per_cent(random, need.replicates // 2))
    assert len(shown) >= 100
    assert 0.65 <= np.mean(shown) <= 0.92
    assert np.mean(halved) <= 0.45
