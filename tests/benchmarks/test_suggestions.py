"""A suggestion rests on a measured neighbour or on the evidence, and can be followed."""

import pytest
from builders.machines import Machine

from benchmarks import catalog
from benchmarks.contracts import Bottleneck, Case, Verdict
from benchmarks.suggestions import (
    MOST,
    Neighbour,
    Place,
    is_slow,
    moves,
    other_moves,
    suggest,
)

GPU = Place("cuda", 16)
CASE = Case(workload="resnet50", preset="full")
COMPUTE = Verdict(
    bottleneck=Bottleneck.COMPUTE,
    confidence="high",
    sentence="",
    evidence={"input_stall": 0.0, "time_conv": 0.6, "time_gemm": 0.1, "time_norm": 0.2},
)


def names(case: Case, verdict: Verdict, place: Place = GPU) -> list[str]:
    return [f"{told.axis}={told.value}" for told in suggest(case, verdict, place)]


def test_each_suggestion_names_the_evidence_that_speaks_for_it() -> None:
    told = suggest(CASE, COMPUTE, GPU)
    assert 0 < len(told) <= MOST
    assert told[0].sentence == (
        "precision=bf16: 70% of the kernels' time goes into matrix products and convolutions."
    )
    assert all("%" in one.sentence for one in told)


def test_a_measured_neighbour_comes_first_with_its_gain() -> None:
    neighbours = [
        Neighbour(CASE, 1_000.0),
        Neighbour(CASE.model_copy(update={"axes": {"layout": "channels_last"}}), 1_310.0),
    ]
    first = suggest(CASE, COMPUTE, GPU, neighbours)[0]
    assert (first.axis, first.value, first.speedup) == ("layout", "channels_last", 1.31)
    assert first.sentence == "layout=channels_last measured +31% on resnet50:full."


def test_what_a_neighbour_measured_to_be_slower_is_not_suggested() -> None:
    neighbours = [
        Neighbour(CASE, 1_000.0),
        Neighbour(CASE.model_copy(update={"axes": {"precision": "bf16"}}), 710.0),
    ]
    told = suggest(CASE, COMPUTE, GPU, neighbours)
    assert "bf16" not in {one.value for one in told}


def test_the_nearest_of_several_neighbours_speaks() -> None:
    here = CASE.model_copy(update={"axes": {"optimizer": "fused"}})

    def with_layout(case: Case) -> Case:
        axes = {**case.axes, "layout": "channels_last"}
        return case.model_copy(update={"axes": dict(sorted(axes.items()))})

    neighbours = [
        *(Neighbour(CASE, 1_000.0), Neighbour(with_layout(CASE), 1_100.0)),
        *(Neighbour(here, 1_000.0), Neighbour(with_layout(here), 1_200.0)),
    ]
    assert suggest(here, COMPUTE, GPU, neighbours)[0].speedup == pytest.approx(1.2)


def test_a_neighbour_of_another_workload_says_nothing() -> None:
    other = Case(workload="unet", preset="full")
    moved = other.model_copy(update={"axes": {"layout": "channels_last"}})
    told = suggest(CASE, COMPUTE, GPU, [Neighbour(other, 1.0), Neighbour(moved, 2.0)])
    assert all(one.speedup is None for one in told)


def test_what_cannot_run_is_not_suggested() -> None:
    tokens = Case(workload="nanogpt", preset="full")
    assert "layout=channels_last" not in names(tokens, COMPUTE)
    assert "precision=tf32" not in names(CASE, COMPUTE, Place("cpu", 2))


def test_what_the_case_has_already_is_not_suggested() -> None:
    tuned = CASE.model_copy(update={"axes": {"precision": "bf16"}})
    assert not [name for name in names(tuned, COMPUTE) if name.startswith("precision")]


def test_a_loader_that_is_late_gets_as_many_processes_as_there_are_cpus() -> None:
    verdict = Machine(read_s=0.5).measure(CASE).verdict
    assert verdict is not None
    assert names(CASE, verdict, Place("cuda", 8))[0] == "workers=8"


def test_fewer_of_the_same_are_no_second_advice() -> None:
    verdict = Machine(read_s=0.5).measure(CASE).verdict
    assert verdict is not None
    told = [one.axis for one in suggest(CASE, verdict, GPU)]
    assert len(told) == len(set(told))


def test_what_takes_minutes_to_compile_comes_last() -> None:
    assert [move for move in moves(CASE, COMPUTE, GPU) if is_slow(move)] == [
        moves(CASE, COMPUTE, GPU)[-1]
    ]
    others = list(other_moves(CASE, COMPUTE, GPU))
    assert [move for move in others if is_slow(move)] == [others[-1]]


def test_loader_processes_that_slow_the_step_become_fewer() -> None:
    verdict = Verdict(
        bottleneck=Bottleneck.INPUT,
        confidence="high",
        sentence="",
        evidence={"input_stall": 0.3, "stall": 0.0, "copy": 0.0, "contention": 0.3},
    )
    crowded = Case(workload="nanogpt", preset="full", axes={"workers": "16"})
    assert "workers=8" in names(crowded, verdict)
    late = verdict.model_copy(update={"evidence": {**verdict.evidence, "stall": 0.03}})
    assert "workers=8" not in names(crowded, late)


def test_what_lifts_two_parts_of_an_input_stall_comes_before_what_lifts_one() -> None:
    """ResNet-50 in bf16 and channels_last with 16 loader processes on an H200."""
    verdict = Verdict(
        bottleneck=Bottleneck.INPUT,
        confidence="low",
        sentence="",
        evidence={"input_stall": 0.287, "stall": 0.026, "copy": 0.053, "contention": 0.209},
    )
    case = Case(workload="resnet50", preset="full", axes={"workers": "16", "pinning": "on"})
    told = suggest(case, verdict, Place("cuda", 16))[0]
    assert (told.axis, told.value) == ("decode", "cache")
    assert "21% of the step is lost" in told.sentence


def test_without_a_verdict_nothing_is_suggested() -> None:
    unknown = COMPUTE.model_copy(update={"bottleneck": Bottleneck.UNKNOWN})
    assert suggest(CASE, unknown, GPU) == ()


def test_every_suggestion_can_be_followed() -> None:
    for bottleneck in Bottleneck:
        verdict = COMPUTE.model_copy(update={"bottleneck": bottleneck})
        for told in suggest(CASE, verdict, GPU):
            axes = {told.axis: told.value}
            assert catalog.normalise(CASE.model_copy(update={"axes": axes}), "cuda").axes == axes
