"""Suites name only what exists, and climb one step at a time."""

import itertools

import pytest

from benchmarks import catalog, suites
from benchmarks.contracts import Case


@pytest.mark.parametrize("suite", suites.suites().values(), ids=lambda suite: suite.name)
def test_every_case_of_a_suite_is_known_and_named_once(suite: suites.Suite) -> None:
    keys = [catalog.normalise(case).key for case in suite.cases]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", ["smoke", "nightly"])
def test_smoke_and_nightly_run_on_a_machine_without_a_gpu(name: str) -> None:
    for case in suites.suite(name).cases:
        catalog.normalise(case, "cpu")


def test_each_rung_of_the_ladder_changes_one_axis() -> None:
    for _, rungs in itertools.groupby(suites.suite("ladder").cases, lambda case: case.workload):
        for lower, upper in itertools.pairwise(rungs):
            assert len(_changed(lower, upper)) == 1


def _changed(lower: Case, upper: Case) -> set[str]:
    below, above = catalog.settings(lower), catalog.settings(upper)
    return {axis for axis in below if below[axis] != above[axis]}


def test_the_fp32_eager_baseline_comes_first_for_each_workload() -> None:
    for suite in suites.suites().values():
        for _, cases in itertools.groupby(suite.cases, lambda case: case.workload):
            first = catalog.settings(next(iter(cases)))
            assert (first["precision"], first["compile"]) == ("fp32", "off")


def test_an_unknown_suite_is_answered_with_the_known_ones() -> None:
    with pytest.raises(catalog.UnknownName, match="choose one of: smoke, ladder, nightly"):
        suites.suite("smok")
