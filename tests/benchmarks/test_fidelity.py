"""Measuring does not slow down what is measured."""

from pathlib import Path

import pytest
import torch

from benchmarks.contracts import Case
from benchmarks.measure import fidelity
from benchmarks.workload import Context


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real NVIDIA GPU")
@pytest.mark.parametrize("case", fidelity.CASES, ids=lambda case: case.workload)
def test_the_harness_step_time_is_within_half_a_percent_of_a_plain_loop(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    context = Context(torch.device("cuda", 0), tmp_path_factory.getbasetemp() / "cache")
    found = fidelity.compare(case, context, pairs=7, span_s=3.0)
    assert found.ratio == pytest.approx(1.0, abs=0.005), found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real NVIDIA GPU")
def test_the_harness_costs_a_host_bound_step_less_than_an_eighth_of_a_millisecond(
    tmp_path: Path,
) -> None:
    """Half a percent of 25 ms, the shortest step among the workloads' full presets."""
    found = fidelity.compare(
        fidelity.HOST_BOUND,
        Context(torch.device("cuda", 0), tmp_path),
        pairs=fidelity.HOST_BOUND_PAIRS,
        span_s=fidelity.HOST_BOUND_SPAN_S,
    )
    assert found.cost_s < 0.005 * 0.025, found


def test_the_comparison_times_both_loops_in_turn(tmp_path: Path) -> None:
    case = Case(workload="nanogpt", preset="tiny")
    found = fidelity.compare(case, Context(torch.device("cpu"), tmp_path), pairs=3, span_s=0.1)
    assert len(found.plain_s) == len(found.harness_s) == 3
    assert all(seconds > 0 for seconds in (*found.plain_s, *found.harness_s))
    assert found.case == "nanogpt:tiny"
