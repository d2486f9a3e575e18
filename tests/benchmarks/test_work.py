"""FLOP of a step: counted, by formula, and what the papers and the note say."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks import workload_module
from benchmarks.contracts import Case
from benchmarks.diagnosis.peaks import PEAKS
from benchmarks.measure import batch_source, flops
from benchmarks.measure.flops import CountedOperation, count, least_s, update_b
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context, Recipe
from benchmarks.workloads import nanogpt, resnet50, unet

H200 = PEAKS[0]
MODELS: dict[str, Any] = {
    "resnet50": resnet50.ResNet50,
    "nanogpt": lambda: nanogpt.GPT(nanogpt.Config()),
    "unet": lambda: unet.UNet(unet.Config()),
}
KNOWN = {"resnet50": 24.30e9, "nanogpt": 854.8e6 * 1024, "unet": 37.3e9}
"""FLOP of a training step per sample of the full presets."""


def batch_of(name: str) -> Batch:
    if name == "nanogpt":
        tokens = torch.zeros(2, 1024, dtype=torch.int64)
        return tokens, tokens
    if name == "resnet50":
        return torch.zeros(2, 3, 224, 224), torch.zeros(2, dtype=torch.int64)
    return (torch.zeros(2, 3, 32, 32),)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_counting_the_formula_and_the_literature_agree_within_two_per_cent(name: str) -> None:
    with torch.device("meta"):  # sizes without numbers: FLOP need no arithmetic
        model = MODELS[name]()
        batch = tuple(part.to("meta") for part in batch_of(name))
    loss = {"resnet50": resnet50, "nanogpt": nanogpt, "unet": unet}[name].loss
    trainer = SimpleNamespace(
        recipe=SimpleNamespace(loss=loss, autocast=None), model=model, device=torch.device("cpu")
    )
    counted = flops._flops(cast(Trainer, trainer), batch) / 2
    module = workload_module.load(name)
    assert module.flops is not None
    assert counted == pytest.approx(module.flops(module.entry.presets["full"]), rel=0.02)
    assert counted == pytest.approx(KNOWN[name], rel=0.02)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_the_formula_follows_the_sizes_of_the_preset(name: str, tmp_path: Path) -> None:
    module = workload_module.load(name)
    assert module.flops is not None
    size = {**module.entry.presets["tiny"], "batch": 2}
    recipe = module.build(size, Context(torch.device("cpu"), tmp_path))
    work = count(
        Trainer(recipe, torch.device("cpu")),
        batch_source.first(recipe, flops.MORE),
        module.flops(size),
    )
    assert work.flops_by_formula is not None
    assert work.flops_per_item == pytest.approx(work.flops_by_formula, rel=0.02)
    assert work.roof_s is None


def perceptron(batch: int, optimizer: Any = torch.optim.AdamW) -> Recipe:
    return Recipe(
        model=nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)),
        loss=lambda model, batch: model(batch[0]).square().mean(),
        optimizer=optimizer,
        parameters=nn.Module.parameters,
        dataset=TensorDataset(torch.randn(16, 32)),
        batch=batch,
    )


def test_the_work_of_a_step_is_scaled_from_few_samples_to_the_batch() -> None:
    cpu = torch.device("cpu")
    recipe = perceptron(4096)
    work = count(Trainer(recipe, cpu), batch_source.first(recipe, flops.MORE), None, (H200, "fp32"))
    macs = 2 * 32 * 64 + 3 * 64 * 8  # the input needs no gradient
    assert work.flops_per_item == 2 * macs
    assert work.roof_s is not None
    weights = 4 * sum(weight.numel() for weight in recipe.model.parameters())
    traffic_s = 4096 * 4 * (32 + 64) / H200.bandwidth
    assert work.roof_s > max(traffic_s, 2 * macs * 4096 / H200.flop_per_s["fp32"])
    assert work.roof_s < 10 * traffic_s + 20 * weights / H200.bandwidth


def linear(batch: int, *activations: nn.Module) -> Recipe:
    return Recipe(
        model=nn.Sequential(nn.Linear(32, 64), *activations),
        loss=lambda model, batch: model(batch[0]).sum(),
        optimizer=torch.optim.SGD,
        parameters=nn.Module.parameters,
        dataset=TensorDataset(torch.randn(16, 32)),
        batch=batch,
    )


def moved_by(recipe: Recipe) -> float | None:
    cpu = torch.device("cpu")
    return count(Trainer(recipe, cpu), batch_source.first(recipe, flops.MORE)).moved_b


@pytest.mark.parametrize("activations", [1, 3])
def test_a_step_that_is_counted_by_hand_moves_so_many_bytes(activations: int) -> None:
    """Input of 32, output of 64, and elementwise operations that move nothing, however many."""
    batch = 4096
    x, y, weight, bias = batch * 32, batch * 64, 32 * 64, 64
    forward = (bias + x + weight + y) + (y + 1)  # the product, and the sum that is the loss
    backward = (y + x + weight) + (y + bias)  # the gradients of weight and bias; x needs none
    update = 3 * (weight + bias)  # read both and their gradients, write both
    recipe = linear(batch, *(nn.ReLU() for _ in range(activations)))
    assert moved_by(recipe) == 4 * (forward + backward + update)


def test_a_step_of_too_few_samples_to_scale_has_no_bytes() -> None:
    recipe, cpu = linear(2, nn.ReLU()), torch.device("cpu")
    work = count(Trainer(recipe, cpu), batch_source.first(recipe, 2))
    assert (work.moved_b, work.roof_s) == (None, None)
    assert work.flops_per_item == 2 * 2 * 32 * 64


@pytest.mark.parametrize(("optimizer", "passes"), [(torch.optim.SGD, 3), (torch.optim.AdamW, 7)])
def test_an_update_reads_and_writes_weights_and_state_once(optimizer: Any, passes: int) -> None:
    trainer = Trainer(perceptron(8, optimizer), torch.device("cpu"))
    weights = sum(weight.numel() for weight in trainer.model.parameters())
    assert update_b(trainer) == 4 * weights * passes


def test_an_operation_takes_as_long_as_its_slower_half_and_elementwise_ones_are_free() -> None:
    operations = [
        CountedOperation("mm", 100.0, 1.0, elementwise=False),
        CountedOperation("norm", 1.0, 100.0, elementwise=False),
        CountedOperation("relu", 0.0, 1e9, elementwise=True),
    ]
    assert least_s(operations, 10.0, 20.0) == 10.0 + 5.0


def test_on_a_cpu_nothing_is_counted_and_the_reason_is_told(tmp_path: Path) -> None:
    def never(case: Case, context: Context) -> Recipe:
        raise AssertionError

    context = Context(torch.device("cpu"), tmp_path)
    efficiency = flops.efficiency(Case(workload="unet", preset="tiny"), 4, context, {}, never)
    assert (efficiency.work, efficiency.uses) == (None, {})
    assert efficiency.reason == "Measured on a CPU, which has no peak in the table."
