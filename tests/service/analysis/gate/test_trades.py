"""A trade: what may be lost of one metric, if another one surely gains."""

import pytest
from builders.gate_records import LOUD, QUIET, decided, record, slower

from service.analysis.gate import decide_cases
from service.schemas.gate import CaseVerdict, Outcome
from service.schemas.policy import Limit, Policy, Rule, Trade
from service.wording.statements import say

TRADE = Trade(max_regression=0.03, if_metric="peak_memory", if_better=0.2)


@pytest.mark.parametrize(
    ("memory", "verdict"),
    [(0.7, CaseVerdict.ALLOWED), (0.81, CaseVerdict.WORSE), (1.0, CaseVerdict.WORSE)],
)
def test_a_trade_holds_only_where_the_other_metric_surely_gained(
    memory: float, verdict: CaseVerdict
) -> None:
    policy = Policy(rules=(Rule(trades=(TRADE,)),))
    decision = decided(record(slower(0.02), peak_memory=memory), policy=policy)
    assert decision.cases[0].verdict is verdict


@pytest.mark.parametrize(
    ("by", "verdict"),
    [(0.005, CaseVerdict.MISSING), (0.02, CaseVerdict.MISSING), (0.04, CaseVerdict.WORSE)],
)
def test_a_trade_whose_metric_is_not_measured_neither_holds_nor_fails(
    by: float, verdict: CaseVerdict
) -> None:
    policy = Policy(rules=(Rule(trades=(TRADE,)),))
    [case] = decided(record(slower(by)), policy=policy).cases
    assert (case.verdict, case.settled) == (verdict, True)
    [quick] = decide_cases([record(slower(by))], policy)
    assert (quick.verdict, quick.settled) == (verdict, True)  # and nothing more is measured
    if verdict is CaseVerdict.MISSING:
        assert say(case.sentence).endswith(
            ", allowed only if peak_memory got better by 20.0 %: "
            "not every process has one above zero."
        )


def test_a_trade_whose_metric_is_not_measured_matters_only_where_it_decides() -> None:
    policy = Policy(rules=(Rule(trades=(TRADE,)),))
    assert decided(record(QUIET), policy=policy).outcome is Outcome.PASS
    assert decided(record(LOUD), policy=policy).cases[0].verdict is CaseVerdict.UNCLEAR
    beside = Limit(metric="step_time")
    both = Policy(rules=(Rule(limits=(Limit(), beside), trades=(TRADE,)),))
    [worse] = decided(record(slower(0.02), step_time=1.02), policy=both).cases
    assert worse.verdict is CaseVerdict.WORSE


@pytest.mark.parametrize("by", [0.005, 0.02])
def test_a_trade_that_is_open_lets_nothing_pass_that_is_surely_worse(by: float) -> None:
    policy = Policy(rules=(Rule(trades=(TRADE,)),))
    decision = decided(record(slower(by), peak_memory=0.8), policy=policy)
    assert decision.cases[0].verdict is CaseVerdict.UNCLEAR


@pytest.mark.parametrize(
    ("throughput", "more", "told"),
    [
        (slower(0.02), {"peak_memory": 0.8}, "surely worse; whether peak_memory fell by 20.0 %"),
        (slower(0.03), {"peak_memory": 0.7}, "surely worse; peak_memory \u221230.0 %"),
        (LOUD, {"peak_memory": 0.8}, "of 1.0 %; whether peak_memory fell by 20.0 % is open: "),
        (LOUD, {}, "; whether peak_memory got better by 20.0 % is open: not every process"),
        (LOUD, {"peak_memory": 0.9}, "too wide an interval for a limit of 1.0 %."),
    ],
)
def test_what_is_open_of_a_trade_is_said(
    throughput: list[float], more: dict[str, float], told: str
) -> None:
    policy = Policy(rules=(Rule(trades=(TRADE,)),))
    [case] = decided(record(throughput, **more), policy=policy).cases
    assert case.verdict is CaseVerdict.UNCLEAR
    assert told in say(case.sentence)
    assert "likely worse" not in say(case.sentence)
