"""One machine slow in everything, told from everything that looks like it."""

from dataclasses import replace

import pytest
from builders.attributed import Night, explained, question, residuals, side
from hypothesis import given, settings
from hypothesis import strategies as st

from service.analysis.attribution import Residual
from service.analysis.attribution.node import evidence, rounds
from service.analysis.attribution.types import Evidence
from service.schemas.findings import State, Strength
from service.wording.statements import say

SLOW = Night(revision="r12", work_s=0.103, worker="w3")
QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def said(table: list[Residual], effect: float = -0.03, night: Night = SLOW) -> Evidence:
    """What is said of the worker of ``night``."""
    after = side(night, 2, first_day=10)
    (answer,) = evidence(question(side(Night(), 2), after, residuals=tuple(table), effect=effect))
    return answer


def named(found: Evidence) -> bool:
    return found.state is State.CHANGED and found.strength is Strength.STRONG


def test_one_bad_node_among_four_is_named() -> None:
    answer = said(residuals({"w3": 0.03}))
    assert named(answer)
    assert answer.name == "w3"
    assert answer.change == pytest.approx(0.03, abs=0.003)


def test_a_regression_of_the_code_is_nobodys_node() -> None:
    everyone = dict.fromkeys(("w1", "w2", "w3", "w4"), 0.03)
    assert said(residuals(everyone)).state is State.UNCHANGED


def test_one_bad_night_is_not_a_bad_node() -> None:
    calm = [r for r in residuals({}) if r.revision != "r14"]
    bad = [r for r in residuals({"w3": 0.03}) if r.revision == "r14"]
    assert not named(said(calm + bad))


def test_a_node_that_has_recovered_is_not_named() -> None:
    bad = [r for r in residuals({"w3": 0.03}) if r.revision != "r14"]
    calm = [r for r in residuals({}) if r.revision == "r14"]
    assert not named(said(calm + bad))


def test_slow_in_one_workload_is_not_slow_in_everything() -> None:
    table = [
        replace(r, log_residual=r.log_residual + (0.05 if r.series in ("s0", "s1") else 0.0))
        if r.worker == "w3"
        else r
        for r in residuals({})
    ]
    assert said(table).state is State.UNCHANGED


def test_one_series_is_not_everything() -> None:
    assert not named(said(residuals({"w3": 0.03}, series=1)))


def test_one_revision_alone_shows_no_persistence() -> None:
    answer = said(residuals({"w3": 0.03}, revisions=("r12",)))
    assert not named(answer)
    assert say(answer.says) == "whether w3 is slow in everything is not clear yet"


def test_faster_in_a_third_of_the_series_is_not_slow_in_everything() -> None:
    table = [
        replace(r, log_residual=r.log_residual + (-0.02 if r.series in ("s0", "s1") else 0.05))
        if r.worker == "w3"
        else r
        for r in residuals({})
    ]
    assert not named(said(table))


def test_chance_names_nobody_in_a_noisy_fleet() -> None:
    asked = question(side(Night(), 2), side(SLOW, 2, first_day=10), effect=-0.01)
    for seed in range(400):
        table = residuals({}, series=4, noise=0.04, seed=seed)
        (answer,) = evidence(replace(asked, residuals=tuple(table)))
        assert not named(answer)


def test_a_fleet_as_noisy_as_the_effect_names_nobody() -> None:
    assert not named(said(residuals({"w3": 0.01}, noise=0.03), effect=-0.01))


def test_a_node_that_is_a_little_slower_does_not_explain_a_large_effect() -> None:
    table = residuals({"w3": 0.01}, noise=0.001)
    assert named(said(table, effect=-0.01))
    assert not named(said(table, effect=-0.30))


def test_jobs_that_only_one_worker_took_are_held_against_others_of_that_revision() -> None:
    """Each series went to one worker a night, as a queue hands them out."""
    table = [
        r
        for r in residuals({"w3": 0.03}, series=8)
        if int(r.series[1:]) % 4 == int(r.worker[1:]) - 1
    ]
    assert {r.series for r in table if r.worker == "w3"} == {"s2", "s6"}
    assert named(said(table))


def test_alone_no_worker_can_be_analysed() -> None:
    answer = said(residuals({"w3": 0.03}, workers=("w3",)))
    assert answer.state is State.UNCLEAR
    assert say(answer.says) == "no other worker to hold w3 against"


def test_a_worker_that_became_faster_in_everything_explains_an_improvement() -> None:
    faster = replace(SLOW, work_s=0.097)
    answer = said(residuals({"w3": -0.03}), effect=0.03, night=faster)
    assert named(answer)
    assert "faster" in say(answer.says)
    assert not named(said(residuals({"w3": 0.03}), effect=0.03, night=faster))


def test_the_first_bad_revision_good_elsewhere_is_the_node_once_it_is_repeated() -> None:
    before = [*side(Night()), *side(Night(revision="r12", worker="w2"), 1, first_day=12)]
    once, twice = (side(SLOW, count, first_day=10) for count in (1, 2))
    answers = [evidence(question(before, after, last_good="r11"))[0] for after in (once, twice)]
    assert [named(answer) for answer in answers] == [False, True]
    assert say(answers[0].says) == "r12 is at the old level on w2 and at the new one on w3"
    assert (
        say(answers[0].says) in explained(question(before, once, last_good="r11")).not_excluded[0]
    )


def test_rounds_follow_the_clock_and_not_the_names() -> None:
    table = residuals({}, revisions=("z", "a", "m"))
    assert [round_.revision for round_ in rounds(table, "w3")] == ["z", "a", "m"]


@QUICK
@given(st.integers(0, 10_000))
def test_a_quiet_fleet_names_nobody(seed: int) -> None:
    for worker in ("w1", "w3"):
        table = residuals({}, noise=0.01, seed=seed)
        assert not named(said(table, night=replace(SLOW, worker=worker)))


@QUICK
@given(st.integers(0, 10_000), st.sampled_from(["w1", "w2", "w3", "w4"]))
def test_only_the_bad_one_of_a_fleet_is_named(seed: int, bad: str) -> None:
    table = residuals({bad: 0.03}, seed=seed)
    for worker in ("w1", "w2", "w3", "w4"):
        assert named(said(table, night=replace(SLOW, worker=worker))) == (worker == bad)


@QUICK
@given(st.permutations(residuals({"w3": 0.03}, series=3)))
def test_the_order_of_residuals_says_nothing(table: list[Residual]) -> None:
    assert said(table) == said(residuals({"w3": 0.03}, series=3))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_residual_is_a_number(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        replace(residuals({})[0], log_residual=value)
