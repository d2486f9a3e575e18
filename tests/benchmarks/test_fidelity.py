"""Measuring does not slow down what is measured."""

from pathlib import Path

import pytest
import torch

from benchmarks.contracts import Case
from benchmarks.workload import Context
from trials import fidelity


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real NVIDIA GPU")
@pytest.mark.parametrize("case", fidelity.CASES, ids=lambda case: case.workload)
def test_the_harness_step_time_is_within_half_a_percent_of_a_plain_loop(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    context = Context(torch.device("cuda", 0), tmp_path_factory.getbasetemp() / "cache")
    comparison = fidelity.compare(case, context, pairs=7, span_s=3.0)
    assert comparison.ratio == pytest.approx(1.0, abs=0.005), comparison


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real NVIDIA GPU")
def test_the_harness_takes_less_of_the_host_than_half_a_percent_of_the_shortest_step(
    tmp_path: Path,
) -> None:
    """25 ms is the shortest step among the workloads' full presets on a big GPU."""
    cost = fidelity.host_cost(Context(torch.device("cuda", 0), tmp_path))
    assert min(cost.cost_s) < 0.005 * 0.025, cost


def test_the_harness_around_an_empty_step_is_timed_as_often_as_asked(tmp_path: Path) -> None:
    measured = fidelity.host_cost(Context(torch.device("cpu"), tmp_path), steps=50, repetitions=3)
    assert len(measured.cost_s) == 3
    assert all(cost > 0 for cost in measured.cost_s)


@pytest.mark.parametrize("pairs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_comparison_times_both_loops_in_turn(tmp_path: Path, pairs: int) -> None:
    case = Case(workload="nanogpt", preset="tiny", axes={"batch": "2"})
    comparison = fidelity.compare(
        case, Context(torch.device("cpu"), tmp_path), pairs=pairs, span_s=0.1
    )
    assert len(comparison.plain_s) == len(comparison.harness_s) == pairs
    assert all(seconds > 0 for seconds in (*comparison.plain_s, *comparison.harness_s))
    assert comparison.case == "nanogpt:tiny batch=2"
