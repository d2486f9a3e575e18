"""A suggestion rests on a measured neighbour or on the evidence, and can be followed."""

import pytest
from builders.machines import Machine
from builders.measured import a_pass, a_replicate, a_result

from benchmarks.catalog import catalog
from benchmarks.contracts import Bottleneck, Case, Environment, Result, Suggestion, Verdict
from benchmarks.diagnosis.conclude import advised, place_of
from benchmarks.diagnosis.suggestions import (
    MOST,
    Move,
    Neighbour,
    Place,
    is_slow,
    moves,
    other_moves,
    suggest,
    with_move,
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
    return [f"{suggestion.axis}={suggestion.value}" for suggestion in suggest(case, verdict, place)]


def test_each_suggestion_names_the_evidence_that_speaks_for_it() -> None:
    suggestions = suggest(CASE, COMPUTE, GPU)
    assert 0 < len(suggestions) <= MOST
    assert suggestions[0].sentence == (
        "precision=bf16: 70% of the kernels' time goes into matrix products and convolutions."
    )
    assert all("%" in one.sentence for one in suggestions)


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
    suggestions = suggest(CASE, COMPUTE, GPU, neighbours)
    assert "bf16" not in {one.value for one in suggestions}


@pytest.mark.parametrize(("rate", "faster"), [(1_000.1, False), (1_005.0, False), (1_006.0, True)])
def test_a_neighbour_that_is_faster_by_noise_alone_is_no_faster(rate: float, faster: bool) -> None:
    moved = CASE.model_copy(update={"axes": {"precision": "bf16"}})
    suggestions = suggest(CASE, COMPUTE, GPU, [Neighbour(CASE, 1_000.0), Neighbour(moved, rate)])
    assert ("bf16" in {one.value for one in suggestions}) is faster
    assert "+0%" not in "".join(one.sentence for one in suggestions)


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
    suggestions = suggest(CASE, COMPUTE, GPU, [Neighbour(other, 1.0), Neighbour(moved, 2.0)])
    assert all(one.speedup is None for one in suggestions)


def test_what_cannot_run_is_not_suggested() -> None:
    tokens = Case(workload="nanogpt", preset="full")
    assert "layout=channels_last" not in names(tokens, COMPUTE)
    assert "precision=tf32" not in names(CASE, COMPUTE, Place("cpu", 2))


A_TRANSFORMER = Case(
    workload="nanogpt", preset="full", axes={"compile": "default", "precision": "bf16"}
)
ATTENTION = COMPUTE.model_copy(
    update={"evidence": {"input_stall": 0.0, "time_gemm": 0.6, "time_attention": 0.3}}
)


@pytest.mark.parametrize(
    ("capability", "left_out"),
    [
        ((7, 5), {"precision=fp8", "precision=tf32", "attention=flash", "attention=cudnn"}),
        ((8, 0), {"precision=fp8"}),
        ((9, 0), set()),
        (None, set()),
    ],
)
def test_what_the_gpu_is_too_old_for_is_not_suggested(
    capability: tuple[int, int] | None, left_out: set[str]
) -> None:
    plain = A_TRANSFORMER.model_copy(update={"axes": {}})

    def offered(place: Place) -> set[str]:
        offered_moves: list[Move] = []
        for case in (plain, A_TRANSFORMER):
            offered_moves += [*moves(case, ATTENTION, place), *other_moves(case, ATTENTION, place)]
        return {f"{move.axis}={move.value}" for move in offered_moves}

    assert offered(GPU) - offered(Place("cuda", 16, capability)) == left_out


def tried(case: Case, verdict: Verdict) -> set[str]:
    tried_moves = [*moves(case, verdict, GPU), *other_moves(case, verdict, GPU)]
    return {f"{move.axis}={move.value}" for move in tried_moves}


def test_8_bits_are_tried_where_a_compiler_fuses_their_scaling() -> None:
    eager = A_TRANSFORMER.model_copy(update={"axes": {"precision": "bf16"}})
    assert "precision=fp8" in tried(A_TRANSFORMER, ATTENTION)
    assert "precision=fp8" not in tried(eager, ATTENTION)


def test_the_attention_kernel_that_torch_chose_is_not_tried_by_its_name() -> None:
    evidence = {**ATTENTION.evidence, "attention_cudnn": 0.97, "attention_flash": 0.03}
    values = tried(A_TRANSFORMER, ATTENTION.model_copy(update={"evidence": evidence}))
    assert "attention=cudnn" not in values
    assert "attention=flash" in values


@pytest.mark.parametrize(
    ("axes", "there"), [({"precision": "bf16"}, False), ({"attention": "flash"}, False), ({}, True)]
)
def test_the_efficient_kernel_is_tried_where_flash_cannot_run(
    axes: dict[str, str], there: bool
) -> None:
    case = A_TRANSFORMER.model_copy(update={"axes": axes})
    assert ("attention=efficient" in tried(case, ATTENTION)) is there


def test_an_old_gpu_is_known_by_its_result() -> None:
    def values(capability: str) -> list[str]:
        here = measured_where(device="cuda", gpu_capability=capability)
        result = here.model_copy(update={"case": A_TRANSFORMER, "verdict": ATTENTION})
        verdict = advised(result, []).verdict
        assert verdict is not None
        return [suggestion.value for suggestion in verdict.suggestions]

    assert "fp8" in values("9.0")
    assert "fp8" not in values("8.0")


@pytest.mark.parametrize(
    "capability", ["", "8", "8.", ".0", "8.0 ", "-8.0", "8,0", "².0", "8.0.1", "9" * 400 + ".0"]
)
def test_an_odd_capability_is_not_known(capability: str) -> None:
    assert place_of(measured_where(device="cuda", gpu_capability=capability)).capability is None
    assert place_of(measured_where(device="cuda", gpu_capability="12.1")).capability == (12, 1)


def test_what_the_case_has_already_is_not_suggested() -> None:
    tuned = CASE.model_copy(update={"axes": {"precision": "bf16"}})
    assert not [name for name in names(tuned, COMPUTE) if name.startswith("precision")]


MINE = Case(workload="mine.bench:build", preset="tiny")
WAITING = Verdict(
    bottleneck=Bottleneck.INPUT,
    confidence="high",
    sentence="",
    evidence={"input_stall": 0.6, "stall": 0.55, "copy": 0.1},
)


@pytest.mark.parametrize(("verdict", "axis"), [(WAITING, "decode"), (COMPUTE, "layout")])
@pytest.mark.parametrize(
    ("declares", "tried"), [({}, False), ({"input": "tokens"}, False), ({"input": "images"}, True)]
)
def test_an_own_model_is_advised_only_what_its_facts_allow(
    verdict: Verdict, axis: str, declares: dict[str, str], *, tried: bool
) -> None:
    recorded = {f"sw.model.{name}": value for name, value in declares.items()}
    here = measured_where(device="cpu")
    facts = Environment(facts={**here.environment.facts, **recorded})
    result = here.model_copy(update={"case": MINE, "verdict": verdict, "environment": facts})
    advice = advised(result, []).verdict
    assert advice is not None
    assert (axis in {one.axis for one in advice.suggestions}) is tried
    assert advice.suggestions, "what asks for no fact is advised all the same"
    made = [*moves(MINE, verdict, place_of(result)), *other_moves(MINE, verdict, place_of(result))]
    assert ("layout" in {move.axis for move in made}) is tried


def test_a_loader_that_is_late_gets_as_many_processes_as_there_are_cpus() -> None:
    verdict = Machine(read_s=0.5).measure(CASE).verdict
    assert verdict is not None
    assert names(CASE, verdict, Place("cuda", 8))[0] == "workers=8"


def test_fewer_of_the_same_are_no_second_advice() -> None:
    verdict = Machine(read_s=0.5).measure(CASE).verdict
    assert verdict is not None
    axes = [one.axis for one in suggest(CASE, verdict, GPU)]
    assert len(axes) == len(set(axes))


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
    suggestion = suggest(case, verdict, Place("cuda", 16))[0]
    assert (suggestion.axis, suggestion.value) == ("decode", "cache")
    assert "21% of the step is lost" in suggestion.sentence


@pytest.mark.parametrize(("drained", "busy"), [(0.007, 0.97), (0.9, 0.97), (0.007, 0.6)])
def test_a_host_that_a_full_queue_holds_back_needs_no_fewer_launches(
    drained: float, busy: float
) -> None:
    shares = {"enqueue": 0.99, "drained": drained, "busy": busy, "time_conv": 0.9}
    for limit in (Bottleneck.COMPUTE, Bottleneck.OVERHEAD):
        verdict = COMPUTE.model_copy(update={"evidence": shares, "bottleneck": limit})
        assert "queue" not in " ".join(one.sentence for one in suggest(CASE, verdict, GPU))
    dry = {**shares, "drained": 0.9, "busy": 0.4}
    assert "queue" in suggest(CASE, verdict.model_copy(update={"evidence": dry}), GPU)[0].sentence


def test_without_a_profile_a_device_that_waits_for_the_host_has_no_work_of_its_own() -> None:
    shares = {"enqueue": 0.8, "drained": 0.9, "input_stall": 0.03}
    verdict = Verdict(
        bottleneck=Bottleneck.OVERHEAD, confidence="high", sentence="Late.", evidence=shares
    )
    told = [one.sentence for one in suggest(CASE, verdict, GPU)]
    assert told, "a compiler launches fewer kernels"
    assert all("80% of the step is what the host needs" in one for one in told), told


def test_without_a_verdict_nothing_is_suggested() -> None:
    unknown = COMPUTE.model_copy(update={"bottleneck": Bottleneck.UNKNOWN})
    assert suggest(CASE, unknown, GPU) == ()


def test_every_suggestion_can_be_followed() -> None:
    for bottleneck in Bottleneck:
        verdict = COMPUTE.model_copy(update={"bottleneck": bottleneck})
        for suggestion in suggest(CASE, verdict, GPU):
            axes = {suggestion.axis: suggestion.value}
            assert catalog.normalise(CASE.model_copy(update={"axes": axes}), "cuda").axes == axes


def test_a_factor_that_no_machine_can_give_is_told_of_no_neighbour() -> None:
    moved = CASE.model_copy(update={"axes": {"precision": "bf16"}})
    for rates in ((5e-324, 1e100), (0.0, 1.0), (1.0, 1e100)):
        beside = [Neighbour(CASE, rates[0]), Neighbour(moved, rates[1])]
        assert all(one.speedup is None for one in suggest(CASE, COMPUTE, GPU, beside))


def test_changes_of_the_code_come_first_and_are_kept() -> None:
    change = Suggestion(sentence="model.py:114 makes the host wait.")
    verdict = COMPUTE.model_copy(update={"suggestions": (change,)})
    beside = [
        Neighbour(CASE, 100.0),
        Neighbour(with_move(CASE, Move("precision", "bf16", "")), 200.0),
    ]
    advice = suggest(CASE, verdict, GPU, beside)
    assert advice[0] == change
    assert (advice[1].axis, advice[1].speedup) == ("precision", 2.0)
    assert len(advice) <= MOST


def test_no_share_within_the_noise_is_a_reason() -> None:
    shares = {"time_gemm": 0.9, "time_optimizer": 0.06, "noise": 0.01}
    verdict = COMPUTE.model_copy(update={"evidence": shares})
    axes = {move.axis for move in moves(CASE, verdict, GPU)}
    assert "optimizer" in axes
    noisy = verdict.model_copy(update={"evidence": {**shares, "noise": 0.08}})
    assert "optimizer" not in {move.axis for move in moves(CASE, noisy, GPU)}


def test_a_case_of_another_version_keeps_what_it_suggested() -> None:
    kept = Suggestion(axis="gone", value="far", sentence="As it was known then.")
    verdict = COMPUTE.model_copy(update={"suggestions": (kept,)})
    foreign = CASE.model_copy(update={"workload": "vgg"})
    result = a_result(a_replicate(a_pass(0.1), a_pass(0.1))).model_copy(update={"verdict": verdict})
    assert advised(result, []) != result
    strange = result.model_copy(update={"case": foreign})
    assert advised(strange, []) == strange


def measured_where(**facts: str) -> Result:
    environment = Environment(
        facts={f"hw.{name.replace('_', '.')}": fact for name, fact in facts.items()}
    )
    return a_result(a_replicate(a_pass(0.1), a_pass(0.1))).model_copy(
        update={"environment": environment}
    )


@pytest.mark.parametrize("cpus", ["²", "①", "-1", "1.5", " 8", "", "9" * 7, "9" * 500])
def test_a_number_of_cpus_that_is_none_is_not_known(cpus: str) -> None:
    result = measured_where(device="cuda", cpu_usable=cpus)
    assert place_of(result) == Place("cuda", None)
    assert advised(result, []).verdict is not None
    assert place_of(measured_where(device="cuda", cpu_usable="64")).cpus == 64


@pytest.mark.parametrize("device", ["tpu", ""])
def test_of_a_strange_device_nothing_breaks(device: str) -> None:
    result = measured_where(device=device).model_copy(update={"verdict": COMPUTE})
    for preset in ("auto", "tiny"):
        case = CASE.model_copy(update={"preset": preset})
        assert advised(result.model_copy(update={"case": case}), []).verdict is not None
