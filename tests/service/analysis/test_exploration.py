"""Cases to try next: the best of a matrix is found in a few tries, by what its neighbours gave."""

from __future__ import annotations

import math
from itertools import product
from random import Random

import pytest

from benchmarks.contracts import Case
from service.analysis.exploration import MeasuredCase, expected_gains, plan

AXES = {
    "precision": ("", "tf32", "bf16", "fp16"),
    "compile": ("", "default", "reduce-overhead"),
    "layout": ("", "channels_last"),
    "optimizer": ("", "fused"),
    "decode": ("", "cache"),
}
EFFECTS = {"tf32": 0.2, "bf16": 0.7, "fp16": 0.72, "default": 0.2, "reduce-overhead": 0.25}
EFFECTS |= {"channels_last": -0.1, "fused": 0.04, "cache": 0.3}
TOGETHER = {("bf16", "channels_last"): 0.35, ("fp16", "channels_last"): 0.3}
MINUTE_S = 60.0


def case(**axes: str) -> Case:
    return Case(workload="resnet50", preset="full", axes={k: v for k, v in axes.items() if v})


EVERY = [case(**dict(zip(AXES, values, strict=True))) for values in product(*AXES.values())]


def rate(of: Case) -> float:
    """A rate whose effects are sums, but for a layout that pays with half precision only."""
    values = set(of.axes.values())
    total = sum(EFFECTS[value] for value in values)
    total += sum(more for pair, more in TOGETHER.items() if values.issuperset(pair))
    return 300.0 * math.exp(total)


def one_at_a_time() -> list[Case]:
    return [case(), *(case(**{axis: value}) for axis, few in AXES.items() for value in few[1:])]


def tries_until_the_best(random: Random, *, by_plan: bool) -> int:
    """Tries until a case is measured that is within 2 % of the best of the 96."""
    known = [MeasuredCase(one, rate(one) * random.gauss(1, 0.005)) for one in one_at_a_time()]
    best, tries = max(map(rate, EVERY)), 0
    while max(rate(one.case) for one in known) < 0.98 * best:
        seen = [one.case for one in known]
        left = [(one, MINUTE_S) for one in EVERY if one not in seen]
        chosen = plan(known, left, MINUTE_S)[0].case if by_plan else random.choice(left)[0]
        known.append(MeasuredCase(chosen, rate(chosen) * random.gauss(1, 0.005)))
        tries += 1
    return tries


def test_the_best_of_a_matrix_is_found_in_a_few_tries() -> None:
    """Ten cases are known, one factor at a time; the best one has four factors and a pair."""
    guided = [tries_until_the_best(Random(seed), by_plan=True) for seed in range(10)]
    by_chance = [tries_until_the_best(Random(seed), by_plan=False) for seed in range(10)]
    assert max(guided) <= 8
    assert sum(guided) * 4 < sum(by_chance)


def test_what_was_tried_and_is_slow_is_not_tried_again() -> None:
    known = [MeasuredCase(one, rate(one)) for one in EVERY]
    assert plan(known, [(one, MINUTE_S) for one in EVERY[:50]], 3_600.0) == []


def test_a_case_costs_its_time_and_the_budget_holds() -> None:
    known = [MeasuredCase(one, rate(one)) for one in one_at_a_time()]
    left = [(one, MINUTE_S) for one in EVERY if one not in one_at_a_time()]
    assert len(plan(known, left, 5.5 * MINUTE_S)) == 5
    assert plan(known, left, 0.5 * MINUTE_S) == []
    (cheap,) = plan(known, left, MINUTE_S)
    dearer = [(one, 100 * MINUTE_S if one == cheap.case else lasts) for one, lasts in left]
    assert cheap.case not in [trial.case for trial in plan(known, dearer, 200 * MINUTE_S)[:5]]


def test_cases_of_one_plan_are_not_all_alike() -> None:
    """The first one's expected rate stands for its own, so that the next ones teach more."""
    known = [MeasuredCase(one, rate(one)) for one in one_at_a_time()]
    left = [(one, MINUTE_S) for one in EVERY if one not in one_at_a_time()]
    planned = [trial.case.key for trial in plan(known, left, 6 * MINUTE_S)]
    greedy = expected_gains(known, [one for one, _ in left])
    greedy = sorted(greedy, key=lambda trial: -trial.gain)[:6]
    assert len(set(planned)) == 6
    assert set(planned) != {trial.case.key for trial in greedy}


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_measured_cases_are_enough_to_begin(count: int) -> None:
    known = [MeasuredCase(one, rate(one)) for one in EVERY[:count]]
    told = expected_gains(known, EVERY)
    assert all(math.isfinite(trial.gain) and 0 <= trial.chance <= 1 for trial in told)
    assert told[0].gain < min(trial.gain for trial in told[count:])
