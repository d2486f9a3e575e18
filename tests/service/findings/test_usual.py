"""What each worker measures at a level, and how one's value is carried over to all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.findings.suspicion import ENOUGH, Baseline

VALUES = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=12)


def test_a_worker_with_points_enough_is_held_against_its_own() -> None:
    usual = Baseline.of([("a", 100.0)] * 4 + [("b", 96.0)] * ENOUGH)
    assert (usual.level, usual.at("a"), usual.at("b")) == (100.0, 100.0, 96.0)
    assert usual.alike("b", 96.0 * 0.97) == pytest.approx(97.0)


def test_a_worker_with_too_few_is_one_of_many() -> None:
    usual = Baseline.of([("a", 100.0)] * 5 + [("b", 96.0)] * (ENOUGH - 1))
    assert usual.at("b") == usual.at("a stranger") == usual.level == 100.0


def test_what_measured_nothing_has_no_share_of_it() -> None:
    usual = Baseline.of([("a", 100.0)] * 4 + [("b", 0.0)] * ENOUGH)
    assert usual.alike("b", 97.0) == 97.0


def test_of_zeros_there_are_no_shares() -> None:
    usual = Baseline.of([("a", 0.0), ("b", 0.0), ("c", 3.0)])
    assert usual.alike("a", 97.0) == 97.0


def test_of_nothing_there_is_no_level() -> None:
    with pytest.raises(ValueError, match="Nothing was measured"):
        Baseline.of([])


@given(st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1))
def test_what_is_usual_for_a_known_worker_is_the_level(told: dict[str, list[float]]) -> None:
    usual = Baseline.of((worker, value) for worker, its in told.items() for value in its)
    for worker in usual.by_worker:
        assert usual.alike(worker, usual.at(worker)) == pytest.approx(usual.level)
