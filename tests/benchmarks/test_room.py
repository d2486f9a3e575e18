"""Advice on memory: only where a step is short of it, with the bytes that it frees and its cost."""

from __future__ import annotations

import pytest
from builders.measured import a_pass, a_result
from builders.profiled import COMPUTE, a_profile, profiled

from benchmarks.contracts import Bottleneck, Case, Memory, Phases, Result, Suggestion
from benchmarks.diagnosis.conclude import advised, concluded
from benchmarks.diagnosis.room import make_room
from benchmarks.diagnosis.suggestions import Place

GIB = 2**30
GPU = Place("cuda", 16, (9, 0))
HELD = {"parameters": 10 * GIB, "gradients": 10 * GIB, "activations": 40 * GIB}


def a_memory(reserved_b: int = 62 * GIB, **categories: int) -> Memory:
    held = HELD | categories
    return Memory(
        device_b=80 * GIB,
        peak_b=sum(held.values()),
        peak_at_s=0.05,
        reserved_b=reserved_b,
        categories=held,
    )


def measured(
    memory: Memory | None,
    *,
    axes: dict[str, str] | None = None,
    workload: str = "nanogpt",
    peak_b: int = 70 * GIB,
    retries: int = 0,
    forward_s: float | None = None,
    batch: int = 8,
) -> Result:
    """A result of a GPU whose step takes 0.1 s."""
    profile = a_profile(0.099, {"gemm": 0.099}, COMPUTE).model_copy(update={"memory": memory})
    update: dict[str, object] = {"peak_memory_b": peak_b, "allocator_retries": retries}
    if forward_s is not None:
        update["phases"] = Phases(steps=20, step_s=0.1, seconds={"forward": forward_s})
    replicate = profiled(profile, a_pass(0.1)).model_copy(update=update)
    case = Case(workload=workload, preset="full", axes=axes or {})
    result = a_result(replicate, "nanogpt").model_copy(update={"case": case})
    facts = {"hw.device": "cuda", "hw.gpu.capability": "9.0", "flag.batch": str(batch)}
    environment = result.environment.model_copy(update={"facts": facts})
    return result.model_copy(update={"environment": environment})


def names(told: tuple[Suggestion, ...]) -> list[str]:
    return [f"{one.axis}={one.value}" for one in told]


def test_recomputing_activations_is_told_with_its_bytes_and_its_seconds() -> None:
    first, second = make_room(measured(a_memory(), forward_s=0.03), GPU)
    assert (first.axis, first.value) == ("checkpointing", "blocks")
    assert first.sentence == (
        "checkpointing=blocks: 40.0 GiB of 60.0 GiB at the peak are activations, and most of them "
        "need not be kept; it costs one more forward pass, 30.0 ms or 30% of the step."
    )
    assert (second.axis, second.value) == ("accumulation", "2")
    assert second.sentence == (
        "accumulation=2: up to 20.0 GiB less at the peak, with the same update; it costs twice as "
        "many launches."
    )


@pytest.mark.parametrize(
    ("batch", "axes", "told"),
    [
        (8, {}, "accumulation=2: "),
        (3, {}, "Half the batch: "),
        (8, {"batch": "fastest"}, "Half the batch: "),
        (1, {}, ""),
    ],
)
def test_a_smaller_batch_is_told_only_where_it_can_be_had(
    batch: int, axes: dict[str, str], told: str
) -> None:
    """Two parts of an odd batch, or the half of one sample, cannot be measured."""
    case = {"checkpointing": "blocks", **axes}  # so that nothing else is to be told
    found = make_room(measured(a_memory(), axes=case, batch=batch), GPU)
    assert [one.sentence[: len(told)] for one in found] == ([told] if told else [])


def test_without_phases_the_cost_has_no_seconds() -> None:
    (first, _) = make_room(measured(a_memory()), GPU)
    assert first.sentence.endswith("it costs one more forward pass.")


@pytest.mark.parametrize(
    ("short", "more"),
    [
        (False, {"peak_b": 67 * GIB}),
        (True, {"peak_b": 68 * GIB}),  # 85 % of 80 GiB
        (True, {"peak_b": 10 * GIB, "retries": 1}),
        (True, {"peak_b": 10 * GIB, "axes": {"batch": "auto"}}),
        (False, {"peak_b": 10 * GIB, "axes": {"batch": "64"}}),
    ],
)
def test_only_a_step_that_is_short_of_memory_gets_advice(short: bool, more: dict[str, int]) -> None:
    assert bool(make_room(measured(a_memory(), **more), GPU)) is short  # type: ignore[arg-type]


def test_without_a_record_of_a_step_there_is_no_advice() -> None:
    assert make_room(measured(None, retries=5), GPU) == ()


def test_fragments_are_told_where_they_are_many_and_not_where_rounding_explains_them() -> None:
    planted = make_room(measured(a_memory(reserved_b=75 * GIB)), GPU)
    assert names(planted) == ["allocator=expandable", "checkpointing=blocks"]
    assert planted[0].sentence == (
        "allocator=expandable: the allocator holds 15.0 GiB (20%) at the peak that nothing uses; "
        "it costs a few slower steps at the start."
    )
    assert "allocator=expandable" not in names(make_room(measured(a_memory(70 * GIB)), GPU))
    growing = measured(a_memory(reserved_b=75 * GIB), axes={"allocator": "expandable"})
    assert "allocator=expandable" not in names(make_room(growing, GPU))


def test_gradients_that_are_kept_come_first_as_dropping_them_costs_nothing() -> None:
    kept = make_room(measured(a_memory(), axes={"zero_grad": "zeros"}), GPU)
    assert names(kept) == ["zero_grad=set_to_none", "checkpointing=blocks"]
    assert "10.0 GiB of gradients" in kept[0].sentence


def test_what_is_recomputed_already_or_small_is_not_suggested() -> None:
    recomputed = make_room(measured(a_memory(), axes={"checkpointing": "blocks"}), GPU)
    assert names(recomputed) == ["accumulation=2"]
    assert make_room(measured(a_memory(24 * GIB, activations=2 * GIB)), GPU) == ()


def test_what_no_axis_can_do_is_a_change_of_the_code() -> None:
    graphed = measured(a_memory(), axes={"graphs": "on", "batch": "auto"})
    first, second = make_room(graphed, GPU)
    assert (first.axis, second.axis) == (None, None)
    assert first.sentence.startswith("torch.utils.checkpoint around the model's blocks: 40.0 GiB")
    assert second.sentence.startswith("Half the batch: up to 20.0 GiB less")


def test_room_stands_beside_what_makes_the_step_faster() -> None:
    verdict = concluded(measured(a_memory())).verdict
    assert verdict is not None
    assert verdict.bottleneck is not Bottleneck.UNKNOWN
    assert len(verdict.suggestions) == 3
    assert names(verdict.suggestions)[1:] == ["checkpointing=blocks", "accumulation=2"]
    enough = concluded(measured(a_memory(), peak_b=GIB)).verdict
    assert enough is not None
    assert names(enough.suggestions)[0] == names(verdict.suggestions)[0]
    assert "checkpointing=blocks" not in names(enough.suggestions)


def test_a_result_that_is_read_again_tells_each_suggestion_once() -> None:
    result = concluded(measured(a_memory(), axes={"graphs": "on", "batch": "auto"}))
    assert result.verdict is not None
    assert any(one.axis is None for one in result.verdict.suggestions)
    assert advised(result, []) == result
