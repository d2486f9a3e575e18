"""Suites name only what exists, and climb one step at a time."""

import itertools
from pathlib import Path

import pytest

from benchmarks.catalog import catalog, suites
from benchmarks.catalog.duration import expected_s
from benchmarks.contracts import Case, Protocol


@pytest.mark.parametrize("suite", suites.suites().values(), ids=lambda suite: suite.name)
def test_every_case_of_a_suite_is_known_and_named_once(suite: suites.Suite) -> None:
    keys = [catalog.normalise(case).key for case in suite.cases]
    assert len(keys) == len(set(keys))


def test_smoke_runs_on_a_machine_without_a_gpu() -> None:
    for case in suites.suite("smoke").cases:
        catalog.normalise(case, "cpu")


@pytest.mark.parametrize("suite", suites.suites().values(), ids=lambda suite: suite.name)
def test_a_gpu_refuses_no_case_of_a_suite(suite: suites.Suite) -> None:
    for case in suite.cases:
        catalog.normalise(case, "cuda")


_TUNED = {
    "resnet50": {"precision": "bf16", "layout": "channels_last", "optimizer": "fused"},
    "nanogpt": {"precision": "bf16", "optimizer": "fused"},
    "unet": {"precision": "bf16", "layout": "channels_last", "optimizer": "fused"},
}
_MATRIX_PAGE = (Path(__file__).parents[2] / "docs" / "matrix.md").read_text(encoding="utf-8")
_TOGETHER = {"prefetch": {"prefetch", "pinning"}}
"""Axes that change with another one, as they ask for it."""


def _night(workload: str) -> tuple[Case, Case, list[Case]]:
    """Both baselines of the suite `nightly`, and every other case but the best together."""
    plain, *others, _ = [c for c in suites.suite("nightly").cases if c.workload == workload]
    tuned = Case(workload=workload, axes={**plain.axes, **_TUNED[workload]})
    others.remove(tuned)
    return plain, tuned, others


def _factors(base: Case, others: list[Case]) -> set[str]:
    """Axes by which one of ``others`` alone differs from ``base``."""
    changed = [_changed(base, other) for other in others]
    alone = {axis for axes in changed if len(axes) == 1 for axis in axes}
    return alone | {axis for axis, both in _TOGETHER.items() if both in changed}


@pytest.mark.parametrize("workload", list(_TUNED))
def test_each_case_of_a_night_is_one_factor_from_a_baseline(workload: str) -> None:
    plain, tuned, others = _night(workload)
    for case in others:
        either = _factors(plain, [case]) | _factors(tuned, [case])
        assert either, f"{case.key} is further than one factor from both baselines"


def test_a_night_varies_every_axis_that_changes_a_step_and_most_from_both_baselines() -> None:
    """Not the sizes, which are another training, and shapes that follow from them, nor the
    allocator, which changes room, not speed, while memory is enough, nor kernels, which a user's
    own model brings, nor devices: a night is one GPU's."""
    sizes = {"batch", "lengths", "dynamic"}
    sizes |= {name for name, axis in catalog.axes().items() if axis.size}
    sizes |= {name for name, axis in catalog.axes().items() if axis.role == "devices"}
    nights = [_night(workload) for workload in _TUNED]
    from_plain = {axis for plain, _, others in nights for axis in _factors(plain, others)}
    from_tuned = {axis for _, tuned, others in nights for axis in _factors(tuned, others)}
    assert from_tuned == set(catalog.axes()) - sizes - {"allocator", "kernel"}
    assert from_tuned - from_plain == {"accumulation", "prefetch", "prefetch_factor"}


@pytest.mark.parametrize("workload", list(_TUNED))
def test_the_best_together_comes_last_and_is_further_than_one_factor(workload: str) -> None:
    _, tuned, _ = _night(workload)
    best = [c for c in suites.suite("nightly").cases if c.workload == workload][-1]
    assert _TUNED[workload].items() <= best.axes.items()
    assert len(_changed(tuned, best) - {"pinning", "workers"}) >= 2


def test_a_night_leaves_most_of_itself_to_a_machine_without_a_gpu() -> None:
    cases = suites.suite("nightly").cases
    kept = [case for case in cases if _runs_on_a_cpu(case)]
    assert len(kept) > len(cases) * 2 / 3
    assert f"{len(kept)} of its {len(cases)} cases" in _MATRIX_PAGE
    for workload in _TUNED:
        assert all(base in kept for base in _night(workload)[:2]), "a baseline must run everywhere"


def _runs_on_a_cpu(case: Case) -> bool:
    try:
        catalog.normalise(case, "cpu")
    except catalog.Refused:
        return False
    return True


def test_a_night_on_one_gpu_takes_as_long_as_the_matrix_page_says() -> None:
    suite = suites.suite("nightly")
    night_s = sum(expected_s(catalog.normalise(case), suite.protocol) for case in suite.cases)
    assert night_s <= 2.5 * 3600
    hours, minutes = divmod(round(night_s / 60), 60)
    (row,) = [line for line in _MATRIX_PAGE.splitlines() if line.startswith("| `nightly` |")]
    assert f"| {len(suite.cases)}: " in row
    assert f"{hours} h {minutes} min" in row


@pytest.mark.parametrize(
    ("parallel", "account", "parts"), [("ddp", False, 2), ("ddp", True, 4), ("fsdp2", True, 3)]
)
def test_a_gang_is_expected_to_be_timed_as_often_as_its_launch_has_parts(
    parallel: str, account: bool, parts: int
) -> None:
    asked = Protocol(account=account)
    gang = Case(workload="nanogpt", axes={"gpus": "2", "parallel": parallel})
    single = expected_s(Case(workload="nanogpt"), asked)
    assert expected_s(gang, asked) == pytest.approx(parts * single)
    one_rank = gang.model_copy(update={"axes": {"parallel": parallel}})
    assert expected_s(one_rank, asked) == pytest.approx(single)


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
