"""A case that no number of permitted pairs would decide is given up, and nothing else is."""

import math

import numpy as np
import pytest
from builders.gate_records import record

from service.analysis.gate import decision
from service.analysis.gate.futility import FEWEST, is_futile, reachable
from service.analysis.gate.metrics import Levels
from service.analysis.gate.noise import PairNoise
from service.schemas.gate import GOOD, CaseVerdict
from service.schemas.policy import DEFAULT_RULE, Limit, Policy, Rule, Trade
from service.wording.statements import say

LEVELS = Levels.of(Policy(), ["case"])
WILD = [0.1, -0.12, 0.02, 0.09, -0.11]


def futile(differences: list[float], rule: Rule = DEFAULT_RULE) -> bool:
    case = decision.decide_case(record(differences), rule, LEVELS)
    return case.settled and case.verdict is CaseVerdict.UNCLEAR


def test_wide_noise_is_given_up_after_four_pairs_and_the_limit_in_reach_is_told() -> None:
    assert not futile(WILD[:3])
    case = decision.decide_case(record(WILD[:4]), Rule(), LEVELS)
    assert case.settled
    assert case.verdict is CaseVerdict.UNCLEAR
    said = say(case.sentence).replace("\u00a0", " ")
    assert "stopped: with a noise of 10 % between pairs" in said
    assert "a limit of 1.0 %, only one of" in said


def test_one_wild_pair_gives_nothing_up() -> None:
    for place in range(4):
        pairs = [0.001, -0.001, 0.002, 0.0]
        pairs[place] = 0.2
        assert not futile(pairs)


def test_what_is_surely_different_or_may_become_so_goes_on() -> None:
    assert not futile([0.05 + one / 4 for one in WILD[:4]])


def test_a_looser_limit_is_worth_more_pairs() -> None:
    loose = Rule(limits=(Limit(max_regression=0.3),))
    assert futile(WILD[:4])
    assert not futile(WILD[:4], loose)


def test_a_trade_may_still_decide() -> None:
    trade = Trade(max_regression=0.2, if_metric="peak_memory", if_better=0.1)
    assert not futile(WILD[:4], Rule(trades=(trade,)))


def test_quiet_earlier_gates_speak_against_giving_up() -> None:
    noisy = [0.025, -0.025, 0.02, -0.02]
    assert is_futile(noisy, Limit(), LEVELS, None)
    assert not is_futile(noisy, Limit(), LEVELS, PairNoise(0.002, 6.0))


def test_a_limit_in_reach_is_decided_by_the_most_pairs() -> None:
    limit = Limit(max_regression=1.01 * reachable(0.05, LEVELS, None))
    pairs = 0.05 * np.array([1.0, -1.0] * 6) * math.sqrt(11 / 12)
    case = decision.decide_case(record(list(pairs)), Rule(limits=(limit,)), LEVELS, last=True)
    assert case.verdict in GOOD


@pytest.mark.parametrize("noise", [0.002, 0.004, 0.006])
def test_what_pairs_can_decide_is_hardly_ever_given_up(noise: float) -> None:
    random = np.random.default_rng(7)
    given_up = sum(
        is_futile(list(random.normal(0, noise, count)), Limit(), LEVELS, None)
        for count in range(FEWEST, 12)
        for _ in range(100)
    )
    assert given_up <= 2
