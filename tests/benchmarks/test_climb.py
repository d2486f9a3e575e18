"""A climb finds what a machine has to give, keeps only what helped, and ends."""

from dataclasses import replace

import pytest
from builders.machines import Machine
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.catalog import catalog
from benchmarks.contracts import Bottleneck, Case, Parity, ParityStatus, Status
from benchmarks.diagnosis import hill_climb
from benchmarks.diagnosis.hill_climb import Ending, Rung
from benchmarks.diagnosis.suggestions import Move, Place, is_slow, with_move

TUNED = {
    "precision=bf16": 0.4,
    "precision=tf32": 0.6,
    "layout=channels_last": 0.7,
    "compile=default": 0.8,
    "optimizer=fused": 0.95,
}
RESNET = Case(workload="resnet50", preset="full")


def climbed(
    machine: Machine, first: Case = RESNET, budget_s: float = 1e6, took_s: float = 30.0
) -> tuple[list[Rung], Ending]:
    """Climb on ``machine``; each case takes ``took_s`` of the budget."""
    place = Place("cuda", machine.cpus)
    rungs = [hill_climb.rung_of(machine.measure(first), None, took_s)]
    while True:
        move = hill_climb.next_move(rungs, place, budget_s - took_s * len(rungs))
        if isinstance(move, Ending):
            return rungs, move
        best = hill_climb.best_of(rungs)
        assert best is not None
        case = with_move(best.case, move)
        rungs.append(hill_climb.rung_of(machine.measure(case), move, took_s))
        assert len(rungs) < 60, "it does not end"


def summit(machine: Machine) -> Rung:
    rungs, ending = climbed(machine)
    best = hill_climb.best_of(rungs)
    assert ending is Ending.SUMMIT
    assert best is not None
    return best


@given(
    rates=st.tuples(*[st.floats(0.5, 2.0)] * 4),
    noise=st.tuples(*[st.floats(0.0, 0.2)] * 4),
)
def test_what_beats_no_bar_would_not_be_kept(
    rates: tuple[float, ...], noise: tuple[float, ...]
) -> None:
    best = Rung(RESNET, Status.OK, "", rates[0], rates[1], noise[0], noise[1])
    tried = Rung(RESNET, Status.OK, "", rates[2], rates[3], noise[2], noise[3])
    bar = hill_climb.bar(best)
    is_beaten = tried.full > bar.full or tried.synth > bar.synth
    assert is_beaten or not hill_climb.helped(tried, best)


def test_the_efficient_kernel_is_tried_where_flash_turned_out_not_to_run() -> None:
    def tried(status: Status) -> set[str]:
        machine = Machine(factors={"precision=bf16": 0.5}, fails={"attention=flash": status})
        rungs, _ = climbed(machine, Case(workload="nanogpt", preset="full"))
        half = [rung for rung in rungs if rung.case.axes.get("precision") == "bf16"]
        return {rung.case.axes.get("attention", "") for rung in half}

    assert "efficient" in tried(Status.UNSUPPORTED)
    assert "efficient" not in tried(Status.OOM)


def test_it_reaches_the_top_of_a_machine_that_waits_for_its_loader_and_computes_slowly() -> None:
    best = summit(Machine(read_s=0.5, copy_s=0.02, step_s=0.2, factors=TUNED))
    assert best.case.axes == {
        "workers": "16",
        "pinning": "on",
        "precision": "bf16",
        "layout": "channels_last",
        "compile": "default",
        "optimizer": "fused",
    }


def test_the_first_thing_it_tries_is_against_the_limit() -> None:
    rungs, _ = climbed(Machine(read_s=0.5, step_s=0.1, factors=TUNED))
    first = rungs[1].move
    assert first is not None
    assert rungs[0].verdict is not None
    assert rungs[0].verdict.bottleneck is Bottleneck.INPUT
    assert (first.axis, first.value) == ("workers", "16")
    assert "waiting for batches" in first.reason


def test_a_host_that_is_too_slow_is_helped_by_graphs_of_the_compiler() -> None:
    best = summit(Machine(host_s=0.2, step_s=0.05))
    assert best.case.axes["compile"] == "reduce-overhead"


def test_what_is_no_faster_is_not_kept() -> None:
    slower = {"precision=bf16": 0.5, "layout=channels_last": 1.4, "compile=default": 0.996}
    best = summit(Machine(step_s=0.1, factors=slower))
    assert best.case.axes == {"precision": "bf16"}


def test_a_gain_that_was_measured_is_kept_however_small() -> None:
    best = summit(Machine(step_s=0.1, factors=TUNED | {"compile=default": 0.99}))
    assert best.case.axes["compile"] == "default"


@pytest.mark.parametrize("status", [Status.OOM, Status.COMPILE_ERROR, Status.TIMEOUT])
def test_what_fails_is_told_left_out_and_not_tried_again(status: Status) -> None:
    rungs, _ = climbed(Machine(factors=TUNED, fails={"compile=default": status}))
    failed = [rung for rung in rungs if rung.status is status]
    assert len(failed) == 1
    assert "compile" not in (hill_climb.best_of(rungs) or rungs[0]).case.axes


def test_what_computes_something_else_is_not_kept_however_fast_it_is() -> None:
    fast = hill_climb.rung_of(Machine(step_s=0.01).measure(RESNET), None, 1.0)
    slow = hill_climb.rung_of(Machine(step_s=0.1).measure(RESNET), None, 1.0)
    wrong = replace(fast, parity=Parity(status=ParityStatus.FAIL, reason="Its loss differs."))
    assert hill_climb.helped(fast, slow)
    assert not hill_climb.helped(wrong, slow)
    assert hill_climb.kept([slow, wrong, fast]) == (True, False, True)


def test_a_gain_within_the_noise_is_none() -> None:
    base = hill_climb.rung_of(Machine(step_s=0.100).measure(RESNET), None, 1.0)
    better = hill_climb.rung_of(Machine(step_s=0.095).measure(RESNET), None, 1.0)
    assert hill_climb.helped(better, base)
    loud = {"noise": 0.08, "noise_synth": 0.08}
    assert not hill_climb.helped(replace(better, **loud), replace(base, **loud))


def test_a_noisy_loader_does_not_hide_that_the_step_is_faster() -> None:
    base = hill_climb.rung_of(Machine(read_s=1.0, step_s=0.100).measure(RESNET), None, 1.0)
    better = hill_climb.rung_of(Machine(read_s=1.0, step_s=0.090).measure(RESNET), None, 1.0)
    assert hill_climb.helped(replace(better, noise=0.2), replace(base, noise=0.2))
    assert hill_climb.gain(better, base) == pytest.approx(0.100 / 0.090)
    slower = replace(better, full=base.full * 0.9)
    assert not hill_climb.helped(slower, base)
    assert hill_climb.gain(slower, base) == pytest.approx(0.9)


def test_a_step_that_got_slower_is_only_kept_for_what_moves_the_loader() -> None:
    base = Rung(RESNET, Status.OK, "", 100.0, 120.0, 0.001, 0.001)
    by_chance = replace(base, full=106.0, synth=114.6, move=Move("compile", "default", ""))
    assert not hill_climb.helped(by_chance, base)
    assert hill_climb.helped(replace(by_chance, move=Move("decode", "gpu", "")), base)
    assert hill_climb.helped(replace(by_chance, noise_synth=0.1), base)


def test_a_faster_step_behind_a_slow_loader_is_kept_for_what_it_gives_without_it() -> None:
    best = summit(Machine(read_s=4.0, step_s=0.1, factors=TUNED, cpus=2))
    assert best.verdict is not None
    assert best.verdict.bottleneck is Bottleneck.INPUT
    assert best.case.axes["workers"] == "2"
    assert best.case.axes["precision"] == "bf16"


def test_no_case_is_begun_that_the_budget_may_not_hold() -> None:
    rungs, ending = climbed(Machine(factors=TUNED), budget_s=130.0, took_s=30.0)
    assert ending is Ending.BUDGET
    assert len(rungs) == 4  # 10 s would be left for the fifth, and the last took 30


def test_of_what_is_against_the_limit_the_compiler_comes_last() -> None:
    """Whatever is tried after it compiles again."""
    rungs, _ = climbed(Machine(step_s=0.1, factors=TUNED))
    tried = [rung.move.axis for rung in rungs if rung.move]
    assert tried.index("optimizer") < tried.index("compile")
    assert tried.index("layout") < tried.index("compile")


@pytest.mark.parametrize(("left_s", "begun"), [(90.0, True), (80.0, False)])
def test_what_is_compiled_is_begun_with_as_long_left_as_the_like_of_it_took(
    left_s: float, begun: bool
) -> None:
    machine = Machine(step_s=0.1, factors=TUNED)
    eager = Case(workload="resnet50", preset="full")
    compiled = eager.model_copy(update={"axes": {"compile": "default", "precision": "bf16"}})
    rungs = [
        *[hill_climb.rung_of(machine.measure(eager), None, 20.0)] * 3,
        hill_climb.rung_of(machine.measure(compiled), Move("compile", "default", "it may"), 85.0),
    ]
    move = hill_climb.next_move(rungs, Place("cuda", machine.cpus), left_s)
    assert isinstance(move, Move) is begun


def test_what_takes_minutes_is_not_begun_with_fewer_left() -> None:
    def tried(budget_s: float) -> bool:
        rungs, _ = climbed(Machine(step_s=0.2, factors=TUNED), budget_s=budget_s, took_s=20.0)
        return any(rung.move and is_slow(rung.move) for rung in rungs)

    assert tried(1_200.0)
    assert not tried(600.0)


def test_a_first_case_that_fails_ends_it() -> None:
    rungs, ending = climbed(Machine(fails={"batch=9": Status.OOM}), Case(
        workload="resnet50", preset="full", axes={"batch": "9"}
    ))  # fmt: skip
    assert (len(rungs), ending) == (1, Ending.FAILED)


def test_it_does_not_try_to_go_back() -> None:
    rungs, _ = climbed(Machine(step_s=0.1, factors=TUNED))
    tried = [(rung.move.axis, rung.move.value) for rung in rungs if rung.move]
    assert ("precision", "tf32") not in tried


STEPS = [
    f"{axis}={value}"
    for axis in ("precision", "layout", "compile", "optimizer", "pinning")
    for value in catalog.axes()[axis].values
]


@settings(max_examples=60, deadline=None)
@given(
    machine=st.builds(
        Machine,
        read_s=st.sampled_from([0.0, 0.05, 0.5, 5.0]),
        copy_s=st.sampled_from([0.0, 0.01, 0.1]),
        host_s=st.sampled_from([0.0, 0.05, 0.3]),
        step_s=st.floats(0.01, 1.0),
        factors=st.dictionaries(st.sampled_from(STEPS), st.floats(0.3, 1.5)),
        fails=st.dictionaries(st.sampled_from(STEPS), st.just(Status.OOM), max_size=2),
        cpus=st.sampled_from([1, 4, 16, 64]),
    )
)
def test_on_any_machine_it_ends_measures_no_case_twice_and_is_never_slower_than_it_began(
    machine: Machine,
) -> None:
    rungs, ending = climbed(machine)
    assert ending is Ending.SUMMIT
    assert len({rung.case.key for rung in rungs}) == len(rungs)
    best = hill_climb.best_of(rungs)
    assert best is not None
    assert best.full >= rungs[0].full * 0.9
    # What makes the input faster may cost the step something, and is kept for what it brings.
    assert best.synth >= rungs[0].synth * 0.9 or best.full > rungs[0].full
