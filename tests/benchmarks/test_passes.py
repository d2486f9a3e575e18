"""What a loader can sustain is what FULL reports, from both sides."""

import contextlib
import itertools
import time
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks.contracts import DuetSide, Pass, Protocol, Replicate
from benchmarks.measure import pair_side
from benchmarks.measure.in_turn import Baton
from benchmarks.measure.passes import Passes
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

BRIEF = Protocol(
    warmup_min_s=0.2,
    warmup_max_s=3.0,
    settle_max_s=0.0,
    window_min_s=0.5,
    window_max_s=2.0,
    block_min_s=0.05,
)
SHORTER = BRIEF.model_copy(update={"warmup_min_s": 0.05, "window_min_s": 0.1, "window_max_s": 0.2})
STEP_S = 0.02


class SlowlyRead(Dataset[Batch]):
    """Samples that take a known time to read."""

    def __init__(self, read_s: float) -> None:
        self.read_s = read_s

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> Batch:
        time.sleep(self.read_s)
        return (torch.full((4,), float(index)),)


def sleeping_loss(model: nn.Module, batch: Batch) -> Tensor:
    """A step of a known length that leaves the processor to others."""
    time.sleep(STEP_S)
    (x,) = batch
    loss: Tensor = model(x).pow(2).mean()
    return loss


def recipe(read_s: float, workers: int) -> Recipe:
    return Recipe(
        model=nn.Linear(4, 1),
        loss=sleeping_loss,
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=SlowlyRead(read_s),
        batch=2,
        optimizer_options={"lr": 1e-6},
        loader_options={"num_workers": workers, "persistent_workers": workers > 0},
    )


def replicate_of(made: Recipe, protocol: Protocol = BRIEF) -> Replicate:
    trainer = Trainer(made, torch.device("cpu"))
    with Reporter(None, "test") as reporter:
        return Passes(trainer, protocol, reporter, "sample/s").replicate(0, 0.0, 0.0)


def passes_of(made: Recipe) -> tuple[Pass, Pass]:
    replicate = replicate_of(made)
    return replicate.full, replicate.synth


def overflowing_loss(model: nn.Module, batch: Batch) -> Tensor:
    """A finite loss whose gradient is not: the square root of zero."""
    (x,) = batch
    loss: Tensor = (model(x) * 0.0).abs().sum().sqrt()
    return loss


@pytest.mark.parametrize("scaled", [True, False])
def test_updates_that_a_scaler_discards_are_told_of_both_passes(scaled: bool) -> None:
    made = replace(recipe(0.0, 0), loss=overflowing_loss, scale_gradients=scaled)
    replicate = replicate_of(made, SHORTER)
    flags = {"full.updates_discarded", "synth.updates_discarded"}
    assert flags & set(replicate.flags) == (flags if scaled else set())
    assert ("full.loss_not_finite" in replicate.flags) is not scaled


def test_progress_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []
    told = Reporter.tell

    def noted(reporter: Reporter, phase: str, share: float, *more: Any) -> None:
        shares.append(share)
        told(reporter, phase, share, *more)

    monkeypatch.setattr(Reporter, "tell", noted)
    replicate_of(recipe(0.0, 0), SHORTER)
    assert shares == sorted(shares)
    assert len(set(shares)) > 3


class AlwaysMine:
    """The baton of a side whose other side is as far as it is."""

    busy_while_waiting = False

    def __init__(self, side: DuetSide) -> None:
        self.side = side

    def meet(self) -> None:
        """Wait for nobody."""

    def alone(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


@pytest.mark.parametrize(("scaled", "least"), [(False, 5), (True, 10)])
def test_a_side_of_a_pair_goes_back_to_its_first_weights_and_warms_up_from_there(
    monkeypatch: pytest.MonkeyPatch, scaled: bool, least: int
) -> None:
    done: list[str] = []

    def noting(owner: object, name: str) -> None:
        call = getattr(owner, name)

        def noted(*given: object) -> object:
            done.append(name)
            return call(*given)

        monkeypatch.setattr(owner, name, noted)

    trainer = Trainer(replace(recipe(0.0, 0), scale_gradients=scaled), torch.device("cpu"))
    noting(trainer, "step")
    noting(trainer, "rewind")
    noting(pair_side.conditions, "reset_peak")
    monkeypatch.setattr(pair_side, "run_turns", lambda *_: (done.append("turns") or [], 0.0))
    side = DuetSide(socket_fd=0, first=True, turns=5, turn_s=0.1)
    with Reporter(None, "test") as reporter:
        measured = pair_side.SidePasses(trainer, BRIEF, reporter, "")
        measured.measured(0, cast(Baton, AlwaysMine(side)))
    phases = [(name, len(list(times))) for name, times in itertools.groupby(done)]
    assert [name for name, _ in phases] == ["step", "rewind", "step", "reset_peak", "turns"]
    assert phases[0][1] == 1
    assert phases[2][1] >= least
    assert measured.startup["warmup"] > measured.startup["reset"] >= 0.0


@pytest.mark.slow
def test_a_loader_that_keeps_up_costs_nothing() -> None:
    def kept_up() -> bool:
        full, synth = passes_of(recipe(read_s=0.002, workers=2))
        return full.rate == pytest.approx(synth.rate, rel=0.4) and full.stall_s < 0.4 * STEP_S

    # Whoever else uses the machine can only slow the loader down.
    assert any(kept_up() for _ in range(3))


def test_a_loader_that_does_not_keep_up_is_reported_at_its_own_rate() -> None:
    read_s, workers = 0.05, 2  # two processes, each a batch of two in 0.1 s: 40 samples a second
    full, synth = passes_of(recipe(read_s, workers))
    assert full.rate <= 1.15 * workers / read_s
    assert synth.rate > 1.5 * full.rate
    assert full.stall_s > STEP_S


def square(model: nn.Module, batch: Batch) -> Tensor:
    (x,) = batch
    loss: Tensor = model(x).pow(2).mean()
    return loss


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.AdamW, {}),
        (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5}),
        (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
        (torch.optim.NAdam, {}),  # its state does not begin at zero; nor do those that follow
        (torch.optim.Rprop, {}),
        (torch.optim.ASGD, {}),
        (torch.optim.Adagrad, {"initial_accumulator_value": 0.1}),
    ],
)
def test_both_passes_start_with_the_optimizer_as_it_was_made(
    optimizer: type[torch.optim.Optimizer], options: dict[str, float]
) -> None:
    made = replace(
        recipe(0.0, 0), loss=square, optimizer=optimizer, optimizer_options={"lr": 0.01, **options}
    )
    trainer = Trainer(made, torch.device("cpu"))
    first = [float(trainer.step((torch.ones(8, 4),))) for _ in range(6)]
    trainer.rewind(0)
    assert [float(trainer.step((torch.ones(8, 4),))) for _ in range(6)] == first


def test_a_compiler_that_made_no_cuda_graphs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters  # seconds to import

    monkeypatch.setitem(counters["inductor"], "cudagraph_skips", 1)
    assert "cudagraphs_skipped" in replicate_of(recipe(0.0, 0), SHORTER).flags


def test_both_passes_start_from_the_weights_that_were_built() -> None:
    made = replace(recipe(read_s=0.0, workers=0), optimizer_options={"lr": 1e-3})
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    trainer = Trainer(made, torch.device("cpu"))
    trainer.step((torch.ones(2, 4),))
    assert not torch.equal(made.model.weight, before["weight"])
    trainer.rewind(0)
    assert torch.equal(made.model.weight, before["weight"])
