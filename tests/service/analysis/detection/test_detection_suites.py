"""The suites that detectors are measured on: what keeps a score honest."""

import numpy as np
import pytest

from service.analysis.detection import evidence
from trials.detection import injected, labelled
from trials.detection.crossvalidation import changed, divided
from trials.detection.synthetic import Planted


def series(name: str, count: int = 120) -> Planted:
    rng = np.random.default_rng(len(name))
    values = 100 * np.exp(rng.normal(0, 0.01, count) + 0.5 * (np.arange(count) >= 60))
    return Planted(name, "real", tuple(values.tolist()), (60,), ignore=((20, 32),))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("step.forward@humanoid", "steps_per_second@humanoid"),
        ("suite SubmitGraph numKernels:4@A", "suite SubmitGraph numKernels:32@B"),
    ],
)
def test_near_identical_series_never_stand_on_both_sides(one: str, other: str) -> None:
    assert labelled.family(series(one)) == labelled.family(series(other))
    assert labelled.fold(series(one)) == labelled.fold(series(other))


def test_benchmarks_of_one_library_are_not_one_family() -> None:
    one, other = series("kernel/indexing@CUDA.jl"), series("array/sorting@CUDA.jl")
    assert labelled.family(one) != labelled.family(other)


def test_residuals_know_nothing_of_labelled_changes() -> None:
    left = injected.residuals(series("a"))
    assert abs(float(np.median(left[:60]) - np.median(left[60:]))) < 0.01
    assert float(np.std(left)) == pytest.approx(0.01, rel=0.3)


def test_what_is_planted_into_a_part_comes_from_that_part_alone() -> None:
    histories = [series(f"suite benchmark{number} x@A") for number in range(12)]
    for (suite, part), planted in divided(histories).items():
        if suite == "inject":
            origins = {series.id.split(" ", 1)[1] for series in planted}
            folds = {labelled.fold(series) for series in histories if series.id in origins}
            assert folds == {part}


def test_a_seed_plants_the_same_steps_every_time() -> None:
    pool = [series("a"), series("b")]
    assert injected.suite(pool, 3, 5) == injected.suite(pool, 3, 5)
    assert injected.suite(pool, 3, 5) != injected.suite(pool, 4, 5)


def test_constants_tried_by_cross_validation_are_put_back() -> None:
    before = evidence.PER_LENGTH
    with changed({"PER_LENGTH": 9.0}):
        assert evidence.PER_LENGTH == 9.0
    assert before == evidence.PER_LENGTH
