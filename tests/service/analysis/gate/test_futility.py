"""A case that no number of permitted pairs would decide is given up, and nothing else is."""

import math

import numpy as np
import pytest
from builders.gate_records import record

from service.analysis.gate import CaseRecord, decision
from service.analysis.gate.futility import FEWEST, given_up, noise_of
from service.analysis.gate.metrics import Levels
from service.analysis.gate.noise import PairNoise
from service.schemas.gate import GOOD, REGRESSIONS, CaseVerdict
from service.schemas.policy import DEFAULT_RULE, Limit, Policy, Rule, Trade
from service.wording.statements import say

LEVELS = Levels.of(Policy(), ["case"])
WILD = [0.1, -0.12, 0.02, 0.09, -0.11]


def stops(differences: list[float], rule: Rule = DEFAULT_RULE) -> bool:
    case = decision.decide_case(record(differences), rule, LEVELS)
    return case.settled and case.verdict is CaseVerdict.UNCLEAR


def ends(differences: list[float], gives_up: bool) -> CaseVerdict:
    """The verdict of a case that gets its pairs one by one."""
    for count in range(LEVELS.min_pairs, LEVELS.max_pairs):
        case = decision.decide_case(record(differences[:count]), DEFAULT_RULE, LEVELS)
        if case.settled and (gives_up or case.verdict is not CaseVerdict.UNCLEAR):
            return case.verdict
    whole = record(differences[: LEVELS.max_pairs])
    return decision.decide_case(whole, DEFAULT_RULE, LEVELS, last=True).verdict


def test_wide_noise_is_given_up_after_five_pairs_and_the_limit_in_reach_is_told() -> None:
    assert len(WILD) == FEWEST
    assert not stops(WILD[:4])
    case = decision.decide_case(record(WILD), DEFAULT_RULE, LEVELS)
    assert case.settled
    assert case.verdict is CaseVerdict.UNCLEAR
    said = say(case.sentence).replace("\u00a0", " ")
    assert said.endswith(
        "stopped: noise of 11 % between pairs puts limits below 9.7 % out of reach, and this one "
        "is 1.0 %."
    )


@pytest.mark.parametrize("wild", [(0.2,), (-0.2,), (0.2, -0.2), (0.06, -0.06)])
def test_a_wild_pair_at_each_end_gives_nothing_up(wild: tuple[float, ...]) -> None:
    quiet = [0.001, -0.001, 0.002, 0.0, -0.002, 0.001]
    for count in range(FEWEST - len(wild), len(quiet)):
        assert not stops([*wild, *quiet[:count]])


def test_a_limit_in_reach_is_decided_by_the_most_pairs() -> None:
    pairs = 0.05 * np.array([1.0, -1.0] * 6) * math.sqrt(11 / 12)
    reach = given_up(list(pairs[:8]), Limit(), LEVELS, None)
    assert reach is not None
    rule = Rule(limits=(Limit(max_regression=1.05 * reach.limit),))
    assert decision.decide_case(record(list(pairs)), rule, LEVELS, last=True).verdict in GOOD


def test_a_looser_limit_is_worth_more_pairs() -> None:
    assert stops(WILD)
    assert not stops(WILD, Rule(limits=(Limit(max_regression=0.3),)))


def test_all_open_limits_have_to_be_out_of_reach() -> None:
    both = (Limit(), Limit(metric="step_time", max_regression=0.3))
    assert not stops(WILD, Rule(limits=both))


def test_a_trade_may_still_decide() -> None:
    trade = Trade(max_regression=0.2, if_metric="peak_memory", if_better=0.1)
    assert not stops(WILD, Rule(trades=(trade,)))


def test_noise_of_earlier_gates_gives_up_nothing_that_is_quiet_now() -> None:
    quiet = [0.004, -0.004, 0.002, -0.003, 0.001]
    assert given_up(quiet, Limit(), LEVELS, PairNoise(0.03, 6.0)) is None


def test_what_is_surely_different_or_may_become_so_goes_on() -> None:
    assert not stops([0.05 + one / 4 for one in WILD])
    assert not stops([-0.08 + one / 2 for one in WILD])


@pytest.mark.parametrize(
    ("effect", "noise"),
    [(0.0, 0.004), (0.0, 0.01), (0.0, 0.02), (0.02, 0.02), (0.03, 0.03), (-0.02, 0.02)],
)
def test_hardly_a_decision_is_lost(effect: float, noise: float) -> None:
    random = np.random.default_rng(7)
    decided = lost = 0
    for _ in range(60):
        pairs = list(random.normal(effect, noise, LEVELS.max_pairs))
        without = ends(pairs, gives_up=False)
        if without in GOOD | REGRESSIONS:
            decided += 1
            lost += ends(pairs, gives_up=True) != without
    assert lost <= 0.1 * decided + 1


def test_the_noise_is_that_of_normal_pairs_on_average() -> None:
    random = np.random.default_rng(3)
    for count in range(FEWEST, 12):
        found = [noise_of(list(random.normal(0, 0.01, count))) for _ in range(400)]
        assert 0.0075 < np.mean(found) < 0.01


def test_a_case_without_pairs_is_not_given_up() -> None:
    case = decision.decide_case(CaseRecord(case_key="case"), DEFAULT_RULE, LEVELS)
    assert not case.settled


def test_a_step_of_something_larger_gives_nothing_up() -> None:
    step = record(WILD).model_copy(update={"is_step": True})
    assert not decision.decide_case(step, DEFAULT_RULE, LEVELS).settled
