"""What measuring again says: every way it can go."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contracts import Case, Direction
from service.findings.confirm.verdict import RemeasuredValue, level_of, verdict
from service.findings.suspicion import Baseline, Suspicion, Where
from service.models import ConfirmationState as State
from service.schemas.gate import Answer
from service.schemas.series import SeriesName
from service.wording.statements import say

OLD, NEW = 100.0, 95.0


def suspected(old: float, new: float) -> Suspicion:
    """A throughput that worker ``b`` measured."""
    series = SeriesName("s", Case(workload="resnet50"), "throughput", "", Direction.HIGHER, {})
    return Suspicion(
        series, "r8", "r9", datetime(2026, 1, 9, tzinfo=UTC), "9", None, "b", Baseline(old, {}), new
    )


SUSPECTED = suspected(OLD, NEW)


def reading(
    answer: Answer,
    baseline: float,
    contender: float,
    worker: str = "a",
    same_code: bool = False,
) -> RemeasuredValue:
    return RemeasuredValue(
        worker=worker, answer=answer, sentence="As it is.", baseline=baseline,
        contender=contender, change_low=-0.1, change_high=0.1, same_code=same_code, pairs=4,
    )  # fmt: skip


OTHER = reading(Answer.SAME, NEW, NEW, same_code=True).model_copy(update={"other_code": True})
"""One code for both revisions, and not the one that measured the suspicious point."""


def test_one_stray_process_of_a_slower_revision_was_not_at_the_old_level() -> None:
    differ, alike = reading(Answer.DIFFERENT, OLD, NEW), reading(Answer.SAME, NEW, NEW)
    assert level_of(SUSPECTED, differ, 99.0, newer=True) is Where.NEW
    assert level_of(SUSPECTED, differ, 95.5, newer=False) is Where.OLD
    assert level_of(SUSPECTED, alike, 99.0, newer=True) is Where.OLD


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (reading(Answer.DIFFERENT, OLD, NEW), State.CONFIRMED),
        (reading(Answer.DIFFERENT, OLD, NEW, worker="b"), State.CONFIRMED),
        (reading(Answer.DIFFERENT, NEW, OLD), State.UNRESOLVED),
        (reading(Answer.DIFFERENT, OLD, 98.0), State.UNRESOLVED),
        (reading(Answer.SAME, NEW, NEW), State.ENVIRONMENT),
        (reading(Answer.SAME, NEW, NEW, worker="b"), State.ENVIRONMENT),
        (reading(Answer.SAME, OLD, OLD, worker="b"), State.NOT_REPRODUCED),
        (reading(Answer.SAME, 97.5, 97.5), State.UNRESOLVED),
        (reading(Answer.UNKNOWN, OLD, NEW), State.UNRESOLVED),
        (reading(Answer.SAME, NEW, NEW, same_code=True), State.CONFIRMED),
        (reading(Answer.DIFFERENT, OLD, OLD, same_code=True), State.NOT_REPRODUCED),
        (OTHER.model_copy(update={"contender": NEW}), State.UNRESOLVED),
        (OTHER.model_copy(update={"contender": OLD}), State.UNRESOLVED),
    ],
)
def test_one_comparison_says_what_it_can(told: RemeasuredValue, state: State) -> None:
    said = verdict(SUSPECTED, told)
    assert (said.state, said.ask_suspect) == (state, False)
    assert say(said.says).endswith(".")


def test_what_a_slower_worker_reads_is_held_against_its_own_past() -> None:
    """Alike on a worker that is 5 % slower for ever: at its old level, not at the new one."""
    slower = reading(Answer.SAME, 0.95 * OLD, 0.95 * OLD, worker="b")
    assert verdict(SUSPECTED, slower).state is State.ENVIRONMENT
    known = replace(SUSPECTED, usual=Baseline(OLD, {"b": 0.95 * OLD}))
    assert verdict(known, slower).state is State.NOT_REPRODUCED


def test_if_all_is_well_elsewhere_the_suspicious_worker_is_asked_as_well() -> None:
    elsewhere = reading(Answer.SAME, OLD, OLD)
    assert verdict(SUSPECTED, elsewhere).ask_suspect
    slow = verdict(SUSPECTED, reading(Answer.SAME, NEW, NEW, worker="b"), elsewhere)
    assert slow.state is State.BAD_NODE
    assert "on b" in say(slow.says)
    fast = verdict(SUSPECTED, reading(Answer.SAME, OLD, OLD, worker="b"), elsewhere)
    assert fast.state is State.NOT_REPRODUCED
    differ = verdict(SUSPECTED, reading(Answer.DIFFERENT, OLD, NEW, worker="b"), elsewhere)
    assert differ.state is State.CONFIRMED


@pytest.mark.parametrize("new", [99.5, 105.0])
def test_a_node_that_differs_as_nodes_do_or_is_faster_is_no_bad_node(new: float) -> None:
    suspicion = suspected(OLD, new)
    slow = reading(Answer.SAME, new, new, worker="b")
    assert verdict(suspicion, slow, reading(Answer.SAME, OLD, OLD)).state is State.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("usual", "slow", "state"),
    [
        (100.5, 95.5, State.BAD_NODE),
        (104.0, 98.8, State.NOT_REPRODUCED),
        (104.0, 88.4, State.BAD_NODE),
        (96.0, 91.2, State.BAD_NODE),
    ],
)
def test_a_node_that_was_faster_than_its_kind_is_bad_only_if_it_is_slower_now(
    usual: float, slow: float, state: State
) -> None:
    """Else what it measured before was another level, of older code say."""
    known = replace(SUSPECTED, usual=Baseline(OLD, {"a": OLD, "b": usual}))
    here, elsewhere = reading(Answer.SAME, slow, slow, "b"), reading(Answer.SAME, OLD, OLD)
    assert verdict(known, here, elsewhere).state is state


def test_two_nodes_a_little_on_either_side_of_the_middle_are_alike() -> None:
    """As beside a drift: each is nearer to another level, and they differ by a third of the way."""
    elsewhere = reading(Answer.SAME, 98.3, 98.3)
    assert verdict(SUSPECTED, elsewhere).ask_suspect
    slow = reading(Answer.SAME, 96.7, 96.7, worker="b")
    assert verdict(SUSPECTED, slow, elsewhere).state is State.NOT_REPRODUCED


def test_of_a_series_that_drifts_no_node_is_named() -> None:
    elsewhere, here = reading(Answer.SAME, OLD, OLD), reading(Answer.SAME, NEW, NEW, worker="b")
    assert verdict(SUSPECTED, here, elsewhere).state is State.BAD_NODE
    assert verdict(SUSPECTED, here, elsewhere, drifts=True).state is State.NOT_REPRODUCED


def test_without_another_worker_the_node_is_not_excluded() -> None:
    said = verdict(SUSPECTED, reading(Answer.SAME, NEW, NEW, worker="b"))
    assert "is not excluded" in say(said.says)


@pytest.mark.parametrize(
    ("ill", "state"), [("", State.ENVIRONMENT), ("a", State.UNRESOLVED), ("c", State.ENVIRONMENT)]
)
def test_a_worker_whose_like_are_slow_is_not_told_from_its_environment(
    ill: str, state: State
) -> None:
    """A node that turns bad while the only other one is bad looks like a change around the code."""
    known = replace(SUSPECTED, usual=Baseline(OLD, {"a": OLD, "b": OLD}))
    assert verdict(known, reading(Answer.SAME, NEW, NEW, worker="b"), ill=ill).state is state


def test_a_third_worker_that_is_well_could_be_asked() -> None:
    known = replace(SUSPECTED, usual=Baseline(OLD, {"a": OLD, "b": OLD, "c": OLD}))
    said = verdict(known, reading(Answer.SAME, NEW, NEW, worker="b"), ill="a")
    assert said.state is State.ENVIRONMENT


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (reading(Answer.SAME, NEW, NEW), State.UNRESOLVED),
        (reading(Answer.SAME, OLD, OLD), State.UNRESOLVED),
        (reading(Answer.DIFFERENT, NEW, NEW, same_code=True), State.UNRESOLVED),
        (reading(Answer.DIFFERENT, OLD, NEW), State.CONFIRMED),
        (reading(Answer.SAME, OLD, OLD, worker="b"), State.NOT_REPRODUCED),
    ],
)
def test_a_slow_worker_says_only_whether_the_revisions_differ(
    told: RemeasuredValue, state: State
) -> None:
    assert verdict(SUSPECTED, told, ill=frozenset("ab")).state is state


value = st.floats(50.0, 200.0)


@given(st.sampled_from(Answer), value, value, st.sampled_from("ab"), st.booleans())
def test_a_verdict_asks_at_most_once_more_and_only_another_worker_leads_to_it(
    answer: Answer, baseline: float, contender: float, worker: str, same_code: bool
) -> None:
    said = verdict(SUSPECTED, reading(answer, baseline, contender, worker, same_code))
    assert not said.ask_suspect or worker == "a"
    again = verdict(
        SUSPECTED,
        reading(answer, baseline, contender, "b", same_code),
        elsewhere=reading(Answer.SAME, OLD, OLD),
    )
    assert not again.ask_suspect
    assert again.state is not State.RUNNING


@given(value, st.floats(0.01, 0.5))
def test_levels_are_told_apart_on_either_side(old: float, effect: float) -> None:
    for new in (old * (1 - effect), old * (1 + effect)):
        suspicion = suspected(old, new)
        assert suspicion.where("a", old) is Where.OLD
        assert suspicion.where("a", new) is Where.NEW
        assert suspicion.where("a", (old * new) ** 0.5) is Where.BETWEEN
