"""Where lengths differ, timed windows are whole cycles, and their rates are of real items."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks.axes.lengths import CYCLE
from benchmarks.contracts import DuetSide, Pass, Protocol, Replicate, Turn, Window
from benchmarks.measure import batch_source, cycles, loop
from benchmarks.measure.estimate import StopRule, block_length, shortened, summarise
from benchmarks.measure.in_turn import Baton, run_turns
from benchmarks.measure.loop import StepTimes, TimedPass
from benchmarks.measure.passes import Passes, _doubts
from benchmarks.measure.profile import extra_passes, phases
from benchmarks.measure.progress import Reporter
from benchmarks.measure.ranks import Solo
from benchmarks.measure.sm_clock import NoClock
from benchmarks.measure.trainer import Trainer
from benchmarks.measure.warmup import Reading, WarmupRule
from benchmarks.workload import Batch, Recipe

CPU = torch.device("cpu")
IGNORED = -100
BRIEF = Protocol(
    warmup_min_s=0.05,
    warmup_max_s=2.0,
    settle_max_s=0.0,
    window_min_s=0.3,
    window_max_s=1.0,
    block_min_s=0.02,
)
COLUMN_S = 1e-4
LENGTHS = [2, 3, 5, 8, 13, 21, 34, 40, 55, 60] * 8


class Varied(Dataset[Batch]):
    """Samples of known lengths."""

    most = 64
    fill = (0.0, IGNORED)

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Batch:
        length = self.lengths[index]
        return torch.ones(length), torch.full((length,), index)


class Slow:
    """A loss that takes a time for each column, real or not, and notes how many items are real."""

    def __init__(self) -> None:
        self.real: list[int] = []

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        x, y = batch
        self.real.append(int((y != IGNORED).sum()))
        time.sleep(COLUMN_S * x.shape[1])
        loss: Tensor = model(x.mean().view(1, 1)).sum()
        return loss


def masked(model: nn.Module, batch: Batch) -> Tensor:
    """A loss that a compiler takes as one graph."""
    x, y = batch
    loss: Tensor = (model(x[:, :, None])[:, :, 0] * (y != IGNORED)).mean()
    return loss


def recipe(loss: Any, dynamic: str = "off", batch: int = 4, **more: Any) -> Recipe:
    return Recipe(
        model=nn.Linear(1, 1),
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=Varied(LENGTHS),
        batch=batch,
        optimizer_options={"lr": 1e-9},
        cycle=CYCLE,
        dynamic=dynamic,
        **more,
    )


def replicate_of(made: Recipe, protocol: Protocol = BRIEF) -> Replicate:
    trainer = Trainer(made, CPU)
    with Reporter(None, "test") as reporter:
        return Passes(trainer, protocol, reporter, "item/s").replicate(0, 0.0, 0.0)


# The stream


@given(st.lists(st.integers(1, 64), min_size=1, max_size=40), st.integers(1, 5), st.integers(0, 30))
def test_whole_cycles_have_the_same_shapes_and_items_wherever_they_begin(
    lengths: list[int], batch: int, skipped: int
) -> None:
    made = replace(recipe(masked, "on", batch), dataset=Varied(lengths))
    feed = itertools.islice(batch_source.batches(made, 1), skipped, skipped + 2 * CYCLE)
    both = list(feed)
    for cycle in (both[:CYCLE], both[CYCLE:]):
        real = sum(int((y != IGNORED).sum()) for _, y in cycle)
        assert real == cycles.items_per_step(made) * CYCLE
        whole = sum(y.numel() for _, y in cycle)
        assert cycles.padding(made) == pytest.approx(1 - real / whole)
    shapes = [Counter(tuple(x.shape) for x, _ in cycle) for cycle in (both[:CYCLE], both[CYCLE:])]
    assert shapes[0] == shapes[1]


def test_the_more_lengths_batches_have_the_less_is_padding() -> None:
    ways = ("on", "bucketed", "off")
    on, bucketed, off = (cycles.padding(recipe(masked, way)) or 0.0 for way in ways)
    assert 0 < on < bucketed < off < 1
    assert off == pytest.approx(1 - sum(LENGTHS) / len(LENGTHS) / Varied(LENGTHS).most, abs=0.02)
    assert cycles.padding(replace(recipe(masked), cycle=1)) is None


def test_every_sample_of_a_length_is_drawn_and_the_seed_decides_which() -> None:
    made = recipe(masked)
    drawn = [list(itertools.islice(cycles.Order(made, seed), 3_000)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == set(range(len(LENGTHS)))


def test_the_lengths_of_a_cycle_are_those_of_the_data_set() -> None:
    mean = sum(LENGTHS) / len(LENGTHS)
    assert cycles.items_per_step(recipe(masked, batch=10)) == 10 * mean
    assert cycles.items_per_step(recipe(masked)) == pytest.approx(4 * mean, rel=0.03)


def test_a_batch_holds_neighbours_in_length() -> None:
    planned = cycles.lengths(recipe(masked))
    spans = sorted((int(row.min()), int(row.max())) for row in planned)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


@given(st.lists(st.integers(1, 1024), min_size=1, max_size=8))
def test_no_other_four_buckets_would_pad_less(longest: list[int]) -> None:
    def padded(to: Sequence[int]) -> int:
        return sum(min(t for t in to if t >= own) for own in longest)

    chosen = cycles.buckets(longest)
    assert 1 <= len(chosen) <= cycles.BUCKETS
    assert list(chosen) == sorted(chosen)
    of = sorted(set(longest))
    others = itertools.combinations(of, min(cycles.BUCKETS, len(of)))
    assert padded(chosen) == min(padded(to) for to in others if to[-1] == of[-1])


# Timed windows


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The real items of each step, for every run of the loop."""
    runs: list[list[int]] = []
    plain = loop.run

    def run(trainer: Trainer, *arguments: Any) -> TimedPass:
        seen = cast(Slow, trainer.recipe.loss).real
        before = len(seen)
        timed = plain(trainer, *arguments)
        runs.append(seen[before:])
        return timed

    monkeypatch.setattr(loop, "run", run)
    return runs


def counted(timed: Pass, real: Sequence[int]) -> None:
    """Check a pass against the real items of its own steps."""
    assert timed.steps == len(real)
    assert timed.steps % CYCLE == 0
    assert timed.block_steps % CYCLE == 0
    assert timed.rate * sum(timed.step_trace.values()) == pytest.approx(sum(real), rel=1e-4)


@pytest.mark.parametrize(
    "dynamic",
    [*(pytest.param(one, marks=pytest.mark.slow) for one in ("off", "on")), "bucketed"],
)
def test_rates_are_of_the_real_items_in_the_very_window(
    windows: list[list[int]], dynamic: str
) -> None:
    replicate = replicate_of(recipe(Slow(), dynamic))
    warmup, _, full, _, synth = windows
    counted(replicate.full, full)
    counted(replicate.synth, synth)
    assert len(set(synth[:CYCLE])) > 4, "a window of other steps would have other items"
    assert replicate.warmup.steps == len(warmup) + CYCLE
    assert "synth.small_ring" not in replicate.flags


def test_turns_of_a_pair_are_whole_cycles(windows: list[list[int]]) -> None:
    made = recipe(Slow(), "on")
    trainer, feed = Trainer(made, CPU), batch_source.batches(made, 0)
    side = DuetSide(socket_fd=0, first=True, turns=4, turn_s=0.03)
    alone = SimpleNamespace(side=side, meet=lambda: None, turns=lambda count: iter(range(count)))
    turns, _ = run_turns(trainer, feed, cast(Baton, alone), NoClock(), Solo(), lambda _: None)
    assert len(turns) == 4
    for turn, real in zip(turns, windows[1:], strict=True):
        _check_turn(turn, real, cycles.items_per_step(made))


def _check_turn(turn: Turn, real: Sequence[int], items: float) -> None:
    assert turn.steps % CYCLE == 0
    assert len(real) > turn.steps, "the first steps fill the device's queue"
    assert sum(real[-turn.steps :]) == items * turn.steps


# Compilation


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    from torch._dynamo import utils  # seconds to import

    torch._dynamo.reset()
    utils.counters.clear()
    utils.clear_compilation_metrics()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(
    ("dynamic", "graphs"),
    [*(pytest.param(one, 1, marks=pytest.mark.slow) for one in ("off", "on")), ("bucketed", 4)],
)
def test_nothing_compiles_in_a_timed_pass(dynamic: str, graphs: int) -> None:
    hurried = BRIEF.model_copy(update={"warmup_min_s": 0.0, "warmup_max_s": 0.0})
    made = recipe(masked, dynamic, compile_options={"backend": "eager", "dynamic": False})
    replicate = replicate_of(made, hurried)
    assert replicate.compilation is not None
    assert replicate.compilation.graphs == graphs
    assert sum(replicate.compilation.recompiles.values()) == graphs - 1
    assert (replicate.full.compile_s, replicate.synth.compile_s) == (0.0, 0.0)


# What judges steadiness, and the passes beside

PATTERN = [0.01, 0.08, 0.02, 0.05, 0.07, 0.03, 0.06, 0.04]


@pytest.mark.parametrize(("cycle", "steady"), [(CYCLE, True), (1, False)])
def test_steps_that_differ_by_their_length_alone_are_steady(cycle: int, steady: bool) -> None:
    protocol = Protocol(warmup_min_s=0.1, settle_max_s=0.0, block_min_s=0.3)
    rule, times = WarmupRule(protocol, Reading, cycle=cycle), StepTimes()
    for step in itertools.islice(itertools.cycle(PATTERN), 400):
        times.step.append(step)
        times.stall.append(0.0)
        if rule(times):
            break
    assert (rule.reason == "steady" and len(times.step) < 100) is steady


def test_blocks_are_whole_cycles_however_short_the_pass() -> None:
    assert block_length(0.1, Protocol(), cycle=CYCLE) == 8
    assert block_length(0.01, Protocol(), least=30, cycle=CYCLE) == 32
    assert shortened(64, 80, CYCLE) == 16
    assert shortened(64, 8, CYCLE) == 8


def test_what_is_told_of_steps_is_of_whole_cycles() -> None:
    steps = PATTERN * 10
    times = StepTimes(steps, *([0.0] * 80 for _ in range(4)), [False] * 80)  # type: ignore[arg-type]
    timed = TimedPass(times, Window(start_s=0, end_s=4), 3.6, None, 1.0)
    told = summarise(timed, 90, StopRule(Protocol(), 8), queued=False, cycle=CYCLE)
    mean_s = sum(PATTERN) / CYCLE
    assert (told.p50_s, told.max_s) == pytest.approx((mean_s, mean_s))
    assert told.slow_steps == 0
    assert told.rate == pytest.approx(90 / mean_s)
    assert told.half_width == pytest.approx(0.0, abs=1e-6)
    assert "tail" not in _doubts(timed, CYCLE)
    skewed = replace(timed, times=StepTimes(step=[0.01, 0.01, 0.01, 0.09] * 20))
    assert ["tail" in _doubts(skewed, cycle) for cycle in (1, 4)] == [True, False]


@pytest.mark.parametrize("dynamic", ["off", "on"])
def test_a_profile_of_several_shapes_is_absent_and_says_so(dynamic: str) -> None:
    trainer = Trainer(recipe(masked, dynamic), CPU)
    ring = batch_source.ring(trainer, batch_source.batches(trainer.recipe, 0))
    assert cycles.several_shapes(ring) is (dynamic == "on")
    if dynamic == "on":
        timed = cast(tuple[Pass, Pass], (None, None))
        with Reporter(None, "test") as reporter:
            beside = extra_passes.run(trainer, ring, timed, Protocol(profile=True), reporter)
        assert beside.profile is not None
        assert beside.profile.absent == extra_passes.SEVERAL_SHAPES


def test_the_phases_are_of_whole_cycles() -> None:
    trainer = Trainer(recipe(masked, "on"), CPU)
    ring = batch_source.ring(trainer, batch_source.batches(trainer.recipe, 0))
    full = cast(Pass, SimpleNamespace(stall_s=0.0, copy_s=0.0))
    assert phases.measure(trainer, ring, full).steps == 2 * CYCLE
