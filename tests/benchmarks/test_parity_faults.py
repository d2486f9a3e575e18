"""Real training with planted faults: each is found, and what is right passes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, Parity, ParityStatus
from benchmarks.measure import parity_check as running
from benchmarks.measure.parity_check import Check
from benchmarks.measure.trainer import Trainer
from benchmarks.measure.trajectory import KEPT, Shelf, follow
from benchmarks.workload import Batch, Context, Recipe

BF16 = Case(workload="nanogpt", preset="tiny", axes={"precision": "bf16"})
"""A name that the catalog knows; the recipe is this file's own."""
PLAIN = Case(workload="nanogpt", preset="tiny")


class Reader(nn.Module):
    """Attention over eight numbers, written out so that it can be wrong."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis
        self.inputs = nn.Linear(4, 48)
        self.outputs = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:  # [B, 8, 4]
        q, k, v = self.inputs(x).chunk(3, dim=-1)
        weights = torch.softmax(q @ k.transpose(1, 2) / 4, dim=self.axis)
        scores: Tensor = self.outputs(weights @ v)
        return scores


def loss(model: nn.Module, batch: Batch) -> Tensor:
    x, y = batch
    return F.mse_loss(model(x), y)


def recipe(case: Case, context: Context) -> Recipe:
    torch.manual_seed(context.seed)
    model = Reader()
    x = torch.randn(64, 8, 4, generator=torch.Generator().manual_seed(1))
    made = Recipe(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 1e-2},
        dataset=TensorDataset(x, x.cumsum(1)[..., :1]),
        batch=16,
    )
    half = case.axes.get("precision") == "bf16"
    return replace(made, autocast=torch.bfloat16) if half else made


@dataclass
class Bench:
    """What is trained, and the folder that keeps references."""

    cache: Path
    recipe: Callable[[Case, Context], Recipe] = recipe

    def verdict(
        self,
        case: Case = BF16,
        trainer: Callable[[Recipe, torch.device], Trainer] = Trainer,
        change: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    ) -> Parity:
        context = Context(torch.device("cpu"), self.cache)
        check = Check(case, context, {"sw.torch": torch.__version__}, self.recipe)
        check.follow(trainer(change(self.recipe(case, context)), context.device))
        return check.verdict()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("case", [PLAIN, BF16], ids=["fp32", "bf16"])
def test_the_case_itself_passes(bench: Bench, case: Case) -> None:
    verdict = bench.verdict(case)
    assert verdict.status is ParityStatus.PASS, verdict.reason
    assert verdict.steps == 20
    assert len(verdict.agreements) == 9
    assert not verdict.reference_cached
    assert verdict.losses["case"].values()[-1] < verdict.losses["case"].values()[0]


@pytest.mark.parametrize("case", [PLAIN, BF16], ids=["fp32", "bf16"])
def test_an_implementation_of_the_same_arithmetic_passes(bench: Bench, case: Case) -> None:
    def fused(old: Recipe) -> Recipe:
        return replace(old, optimizer_options={**old.optimizer_options, "fused": True})

    verdict = bench.verdict(case, change=fused)
    assert verdict.status is ParityStatus.PASS, verdict.reason


def test_a_trainer_that_was_timed_before_is_judged_from_its_start(bench: Bench) -> None:
    def used(old: Recipe, device: torch.device) -> Trainer:
        trainer = Trainer(old, device)
        batch = next(iter(running.inputs(old, 0)))
        for _ in range(30):
            trainer.step(batch)
        return trainer

    assert bench.verdict(trainer=used).status is ParityStatus.PASS


class Blocked(nn.Sequential):
    """A reader of two blocks, which can be computed twice."""

    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.Linear(4, 32), nn.Tanh()), nn.Linear(32, 1))


def test_a_reference_that_does_not_fit_keeps_less_and_computes_the_same(tmp_path: Path) -> None:
    """As fp32 eager at the largest batch that fits a narrower case."""
    twice: list[bool] = []

    def blocked(case: Case, context: Context) -> Recipe:
        return replace(recipe(case, context), model=Blocked(), blocks=(nn.Sequential,))

    def tight(case: Case, context: Context) -> Recipe:
        made = blocked(case, context)

        def short(model: nn.Module, batch: Batch) -> Tensor:
            recomputed = any("forward" in vars(block) for block in model.children())
            if made.autocast is None and not recomputed:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            twice.append(recomputed)
            return loss(model, batch)

        return replace(made, loss=short)

    tried = Bench(tmp_path / "tight", tight).verdict()
    assert tried.status is ParityStatus.PASS, tried.reason
    assert any(twice)
    easy = Bench(tmp_path / "easy", blocked).verdict()
    assert tried.losses["reference"] == easy.losses["reference"]
    assert tried.agreements == easy.agreements


def test_dropout_is_off_in_every_run(bench: Bench) -> None:
    def dropping(case: Case, context: Context) -> Recipe:
        old = recipe(case, context)
        return replace(old, model=nn.Sequential(old.model, nn.Dropout(0.5)))

    verdict = replace(bench, recipe=dropping).verdict(PLAIN)
    assert verdict.status is ParityStatus.PASS, verdict.reason
    attention = nn.MultiheadAttention(4, 1, dropout=0.5)
    running.without_dropout(attention)
    assert attention.dropout == 0.0


class ForgetsToZero(Trainer):
    """Lets gradients add up over steps."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        super().__init__(recipe, device)
        self.optimizer.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]


def wrong_scale(old: Recipe) -> Recipe:
    return replace(old, loss=lambda model, batch: 2.0 * loss(model, batch))


def wrong_gradient_scale(old: Recipe) -> Recipe:
    """The loss reads right, and its gradient is a hundredth: unscaled twice."""

    def scaled(model: nn.Module, batch: Batch) -> Tensor:
        value = loss(model, batch)
        return value.detach() + (value - value.detach()) / 100

    return replace(old, loss=scaled)


def wrong_axis(old: Recipe) -> Recipe:
    model = Reader(axis=-2)
    model.load_state_dict(old.model.state_dict())
    return replace(old, model=model)


def makes_nan(old: Recipe) -> Recipe:
    steps = iter(range(10**6))

    def broken(model: nn.Module, batch: Batch) -> Tensor:
        return loss(model, batch) * (math.nan if next(steps) == 11 else 1.0)

    return replace(old, loss=broken)


@pytest.mark.parametrize("case", [PLAIN, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("fault", [wrong_scale, wrong_gradient_scale, wrong_axis, makes_nan])
def test_a_planted_fault_is_found(
    bench: Bench, fault: Callable[[Recipe], Recipe], case: Case
) -> None:
    verdict = bench.verdict(case, change=fault)
    assert verdict.status is ParityStatus.FAIL
    assert verdict.reason


@pytest.mark.parametrize("case", [PLAIN, BF16], ids=["fp32", "bf16"])
def test_a_forgotten_zero_grad_is_found(bench: Bench, case: Case) -> None:
    verdict = bench.verdict(case, trainer=ForgetsToZero)
    assert verdict.status is ParityStatus.FAIL
    assert "gradient" in verdict.reason


class Scaler:
    """Halves its scale, and lets no update through, in the steps that it is told."""

    def __init__(self, bad: set[int]) -> None:
        self.bad, self.at, self.factor = bad, 0, 65536.0

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.factor

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        self.at += 1
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.grad /= self.factor
        if self.at not in self.bad:
            optimizer.step()

    def update(self) -> None:
        self.factor /= 2 if self.at in self.bad else 1

    def get_scale(self) -> float:
        return self.factor


@pytest.mark.parametrize(("bad", "skips"), [({1, 2}, 0), ({4, 7}, 1), ({9, 10, 11, 12}, 4)])
def test_a_scaler_that_leaves_steps_out_is_counted_once_it_has_settled(
    bad: set[int], skips: int
) -> None:
    device = torch.device("cpu")
    plain_recipe = recipe(PLAIN, Context(device, Path("nowhere")))
    trainer = Trainer(plain_recipe, device)
    trainer.scaler = Scaler(bad)  # type: ignore[assignment]
    trajectory = follow(trainer, running.inputs(plain_recipe, 0), 0)
    assert trajectory.skips == skips
    assert len(trajectory.gradient_norms) == 20 - skips
    assert trajectory.update.size


def test_the_reference_is_computed_once_for_all_cases_of_one_input(bench: Bench) -> None:
    assert not bench.verdict(BF16).reference_cached
    again = bench.verdict(PLAIN)
    assert again.reference_cached
    assert again.status is ParityStatus.PASS
    assert len(list((bench.cache / "parity").glob("*.npz"))) == 5  # three runs and two bases


def test_a_file_that_was_cut_off_is_computed_again(bench: Bench) -> None:
    bench.verdict()
    for path in (bench.cache / "parity").glob("*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    verdict = bench.verdict()
    assert (verdict.status, verdict.reference_cached) == (ParityStatus.PASS, False)


def test_old_references_make_room(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    context = Context(torch.device("cpu"), tmp_path)
    plain_recipe = recipe(PLAIN, context)
    trajectory = follow(
        Trainer(plain_recipe, context.device), running.inputs(plain_recipe, 0), 0, steps=2
    )
    for number in range(KEPT + 3):
        shelf.keep(f"{number:03}", trajectory)
    assert len(list(tmp_path.iterdir())) == KEPT
    known = shelf.load(f"{KEPT + 2:03}")
    assert known is not None
    assert (known.losses, known.gradient_norms) == (trajectory.losses, trajectory.gradient_norms)
    assert np.array_equal(known.update, trajectory.update)


def test_a_reference_that_takes_too_long_is_not_waited_for_and_said(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LIMIT_S", 1e-9)
    verdict = bench.verdict()
    assert verdict.status is ParityStatus.SKIPPED
    assert "20 steps of it take" in verdict.reason


def test_what_goes_wrong_in_the_reference_costs_no_measurement(tmp_path: Path) -> None:
    def fails(case: Case, context: Context) -> Recipe:
        raise torch.OutOfMemoryError("CUDA out of memory")

    check = Check(BF16, Context(torch.device("cpu"), tmp_path), {}, fails)
    check.follow(Trainer(recipe(BF16, check.context), check.context.device))
    verdict = check.verdict()
    assert verdict.status is ParityStatus.SKIPPED
    assert "A batch of 16 does not fit" in verdict.reason


def test_every_axis_but_precision_and_input_is_left_out_of_the_base() -> None:
    axes = {"precision": "bf16", "compile": "default", "optimizer": "fused", "batch": "8"}
    case = Case(workload="nanogpt", preset="tiny", axes={**axes, "workers": "2"})
    assert running.base_of(case).axes == {"batch": "8", "precision": "bf16"}
    assert catalog.normalise(running.base_of(case)) == running.base_of(case)
