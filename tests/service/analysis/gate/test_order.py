"""Pairs go where they may still decide something."""

import numpy as np
import pytest
from builders.gate_records import record

from service.analysis.gate import CaseRecord, Pair, next_places
from service.analysis.gate.decision import decide_case
from service.analysis.gate.metrics import Levels
from service.analysis.gate.order import pairs_to_go
from service.schemas.gate import REGRESSIONS, CaseVerdict
from service.schemas.policy import Policy, Rule

QUIET = [0.001, -0.001, 0.0, 0.001, -0.001, 0.0, 0.001]
NOISY = [0.006, -0.006, 0.001, 0.005, -0.006, 0.0, 0.006]
WILD = [0.1, -0.12, 0.02, 0.09, -0.11, 0.04, 0.1]
POLICY = Policy()
AMPLE = 100.0


def chosen(
    *differences: list[float], affordable: float = AMPLE, policy: Policy = POLICY
) -> list[int]:
    keys = [f"case {place}" for place in range(len(differences))]
    levels = Levels.of(policy, keys)
    records = [record(some, key) for some, key in zip(differences, keys, strict=True)]
    cases = [decide_case(one, Rule(), levels) for one in records]
    return next_places(cases, records, policy, [affordable] * len(cases))


def begun(*counts: int) -> list[CaseRecord]:
    return [CaseRecord(case_key="case", pairs=(Pair(),) * count) for count in counts]


def test_each_case_gets_its_least_pairs_before_the_next_one_begins() -> None:
    assert chosen(NOISY[:1], NOISY[:3], NOISY[:2]) == [0]
    assert chosen(NOISY[:3], NOISY[:3], NOISY[:2]) == [2]


def test_then_one_at_a_time_in_rounds_the_closest_first() -> None:
    assert chosen(QUIET[:4], NOISY[:3]) == [1]
    noisier = [1.3 * one for one in NOISY]
    assert chosen(noisier[:3], NOISY[:3]) == [1]
    assert chosen(NOISY[:3], noisier[:3]) == [0]


def test_what_a_last_look_decides_already_comes_last_in_its_round() -> None:
    nearly = [4 * one for one in QUIET[:3]]
    assert chosen(nearly, NOISY[:3]) == [1]


def test_what_is_decided_gets_no_pair() -> None:
    assert chosen([-0.03] * 5, NOISY[:3]) == [1]
    assert chosen([-0.03] * 5) == []


def test_what_cannot_be_decided_any_more_gives_way() -> None:
    assert chosen(WILD[:3], NOISY[:4]) == [1]
    assert chosen(NOISY[:4], NOISY[:3], affordable=2.0) == [1], "none can: in rounds again"


def test_a_case_whose_pairs_disagree_gives_way() -> None:
    levels = Levels.of(POLICY, ["a"])
    finding = decide_case(record([0.0, 0.0001, -0.0001] * 2 + [0.05] * 5), Rule(), levels)
    finding = finding.model_copy(
        update={"metrics": (finding.metrics[0].model_copy(update={"consistent": False}),)}
    )
    assert pairs_to_go(finding, begun(11)[0], POLICY, levels) == float("inf")


def test_accidents_do_not_keep_the_others_from_their_turn() -> None:
    levels = Levels.of(POLICY, ["a", "b"])
    cases = [decide_case(record(some), Rule(), levels) for some in (NOISY[:1], NOISY[:4])]
    assert next_places(cases, begun(4, 5), POLICY, [AMPLE, AMPLE]) == [0]
    assert next_places(cases, begun(5, 4), POLICY, [AMPLE, AMPLE]) == [1]


@pytest.mark.parametrize(("change", "most"), [(0.0, 0.1), (-0.00995, 0.2)])
def test_choosing_by_the_pairs_makes_no_error_more_frequent(change: float, most: float) -> None:
    """Whole gates of two cases whose budget ends early, at errors large enough to be counted."""
    policy, gates = Policy(false_alarm=0.2, false_pass=0.2), 80
    levels, random, wrong = Levels.of(policy, ["a", "b"]), np.random.default_rng(2), 0
    for _ in range(gates):
        drawn = [random.normal(change, deviation, 12) for deviation in (0.005, 0.008)]
        counts = [3, 3]
        for left in range(6, -1, -1):
            cases = [
                decide_case(record(some[:count]), Rule(), levels)
                for some, count in zip(drawn, counts, strict=True)
            ]
            places = next_places(cases, begun(*counts), policy, [float(left)] * 2)
            if not left or not places:
                break
            counts[places[0]] += 1
        verdicts = [
            case.verdict
            if case.settled
            else decide_case(record(some[:count]), Rule(), levels, last=True).verdict
            for case, some, count in zip(cases, drawn, counts, strict=True)
        ]
        if change:
            wrong += verdicts[0] in (CaseVerdict.SAME, CaseVerdict.NOT_WORSE, CaseVerdict.BETTER)
        else:
            wrong += bool(REGRESSIONS & set(verdicts))
    assert wrong <= gates * most + 2 * (gates * most * (1 - most)) ** 0.5
