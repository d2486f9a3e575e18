"""Forecasts agree with the decisions of simulated gates."""

import math
from dataclasses import replace

import numpy as np
import pytest
from builders.gate_records import record

from service.analysis.gate.decision import decide_case
from service.analysis.gate.forecast import Expected, PairNoise, forecast, power_of
from service.analysis.gate.metrics import Levels
from service.analysis.statement import Statement
from service.schemas.gate import CaseFinding, CaseForecast, CaseVerdict, NoiseSource
from service.schemas.policy import Limit, Policy, Rule
from service.wording.statements import say

LEVELS = Levels.of(Policy(), ["a", "b", "c", "d", "e", "f"])
GATES = 150


def known(deviation: float) -> PairNoise:
    return PairNoise(deviation, math.inf, NoiseSource.SERIES)


def played(
    deviation: float, shift: float, limit: Limit, most: int, random: np.random.Generator
) -> CaseFinding[Statement]:
    """One gate of one case, by the function that decides real ones."""
    rule, differences = Rule(limits=(limit,)), random.normal(shift, deviation, most)
    for count in range(LEVELS.min_pairs, most + 1):
        finding = decide_case(record(differences[:count]), rule, LEVELS)
        if finding.settled:
            return finding
    return decide_case(record(differences), rule, LEVELS, last=True)


@pytest.mark.parametrize(
    ("deviation", "limit", "most"),
    [
        (0.002, Limit(), 12),
        (0.002, Limit(), 4),
        pytest.param(0.006, Limit(), 12, marks=pytest.mark.slow),
        pytest.param(0.006, Limit(max_regression=0.02), 8, marks=pytest.mark.slow),
        (0.01, Limit(margin=0.02), 12),
    ],
)
def test_chance_pairs_and_reach_are_those_of_simulated_gates(
    deviation: float, limit: Limit, most: int
) -> None:
    power, random = power_of(known(deviation), limit, LEVELS, most), np.random.default_rng(3)

    def seen(change: float) -> float:
        shift = math.log1p(-change)
        all_of = [played(deviation, shift, limit, most, random) for _ in range(GATES)]
        return sum(one.verdict is CaseVerdict.WORSE for one in all_of) / GATES

    to_see = limit.max_regression + limit.margin
    assert power.chance == pytest.approx(seen(to_see), abs=0.1)
    equal = [played(deviation, 0.0, limit, most, random).pairs for _ in range(GATES)]
    assert power.pairs == pytest.approx(sum(equal) / GATES, abs=0.5)
    assert power.reachable >= to_see - 1e-9
    if power.reachable > to_see + 1e-9:
        assert seen(power.reachable) == pytest.approx(0.8, abs=0.1)


def test_noise_that_few_pairs_told_promises_less() -> None:
    sure, unsure = (
        power_of(PairNoise(0.004, freedom, NoiseSource.SERIES), Limit(), LEVELS, 12)
        for freedom in (math.inf, 2.0)
    )
    assert unsure.chance < sure.chance - 0.1
    assert unsure.reachable > sure.reachable


def test_gates_are_pooled_by_their_pairs_and_a_wild_one_is_pulled_in() -> None:
    assert PairNoise.of_gates([]) is None
    pooled = PairNoise.of_gates([(0.002, 3), (0.004, 9)])
    assert pooled is not None
    assert pooled.freedom == 10
    assert pooled.deviation == pytest.approx(math.sqrt((2 * 0.002**2 + 8 * 0.004**2) / 10))
    wild = PairNoise.of_gates([(0.002, 5), (0.002, 5), (0.2, 5)])
    assert wild is not None
    assert wild.deviation < 0.004


def told(budget_s: float, *noises: float | None) -> list[CaseForecast[Statement]]:
    """Forecasts of cases whose pairs take half a minute, the first one a whole one."""
    cases = [
        Expected(f"case {place}", None if noise is None else known(noise), 60.0, 30.0)
        for place, noise in enumerate(noises)
    ]
    return forecast(cases, Policy(), budget_s)


def test_a_quiet_case_is_told_its_pairs_its_time_and_its_chance() -> None:
    [one] = told(1_200.0, 0.0025)
    assert (one.most_pairs, one.change) == (12, 0.01)
    assert one.reachable == pytest.approx(0.01)
    assert one.pairs is not None
    assert one.duration_s == pytest.approx(60 + 30 * (one.pairs - 1))
    assert say(one.sentence) == (
        "Noise of 0.25 % between pairs; about 5 pairs (2 min 56 s); sees a 1 % change in 99 of "
        "100 gates."
    )


def test_a_limit_out_of_reach_is_told_with_what_is_within() -> None:
    [one] = told(1_200.0, 0.018)
    assert one.chance is not None
    assert one.chance < 0.1
    assert say(one.sentence) == (
        "Noise of 1.8 % between pairs; 1 % is out of reach in 12 pairs (seen in 7 of 100 gates), "
        "2.7 % is not."
    )


def test_a_budget_that_ends_before_the_pairs_do_is_named() -> None:
    [one] = told(200.0, 0.006)
    assert one.most_pairs == 5
    assert "is out of reach in the 5 pairs that the budget has time for" in say(one.sentence)


def test_a_budget_too_short_for_a_look_has_no_chance() -> None:
    first, second = told(150.0, 0.001, None)
    assert (first.most_pairs, second.most_pairs) == (3, 0), "one after the other"
    assert second.chance == 0.0
    assert say(second.sentence) == "The budget leaves too little time for 3 pairs."
    (alone,) = told(110.0, 0.001)
    assert (alone.most_pairs, alone.chance) == (2, 0.0)


def test_what_nobody_knows_is_said() -> None:
    one, _ = told(1_200.0, None, 0.002)
    assert (one.noise, one.known_by, one.pairs, one.chance, one.reachable) == (None,) * 5
    assert say(one.sentence).startswith("Noise between pairs is not known yet")


def test_what_cannot_be_decided_leaves_its_time_to_the_others() -> None:
    budget_s = 500.0
    beside_hopeless, _ = told(budget_s, 0.005, 0.05)
    beside_noisy, _ = told(budget_s, 0.005, 0.005)
    assert beside_hopeless.most_pairs > beside_noisy.most_pairs


def test_it_is_said_where_the_noise_is_known_from() -> None:
    noise = replace(known(0.002), known_by=NoiseSource.SERIES)
    [one] = forecast([Expected("a", noise, 60.0, 30.0)], Policy(), 1_200.0)
    assert one.known_by is NoiseSource.SERIES


def test_limits_and_noise_of_any_size_have_a_forecast() -> None:
    for limit in (Limit(max_regression=0.99, margin=0.99), Limit(margin=0.0001)):
        for deviation in (0.0, 0.3, 50.0):
            power = power_of(PairNoise(deviation, 2.0, NoiseSource.SERIES), limit, LEVELS, 5)
            assert 0 <= power.chance <= 1
            assert 0 < power.reachable <= 1
            assert 3 <= power.pairs <= 5


def test_gates_that_know_the_noise_are_foretold_to_need_fewer_pairs() -> None:
    gates, history = (
        power_of(PairNoise(0.002, 40.0, source), Limit(), LEVELS, 12)
        for source in (NoiseSource.GATES, NoiseSource.SERIES)
    )
    assert gates.pairs < 3.5 < history.pairs
    assert gates.chance >= history.chance
