"""A gradient scaler discards its first steps; what the optimizer keeps must survive that."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.catalog.catalog import Refused
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

CPU = torch.device("cpu")
TOO_LARGE, FINE = torch.full((8, 4), torch.inf), torch.ones(8, 4)


def _sum(model: nn.Module, batch: Batch) -> Tensor:
    loss: Tensor = model(batch[0]).sum()
    return loss


def recipe(**options: object) -> Recipe:
    torch.manual_seed(0)
    return Recipe(
        model=nn.Linear(4, 1),
        loss=_sum,
        optimizer=torch.optim.SGD,
        parameters=nn.Module.parameters,
        dataset=torch.utils.data.TensorDataset(FINE),
        batch=8,
        optimizer_options={"lr": 0.1, "momentum": 0.9, **options},
        scale_gradients=True,
    )


@pytest.fixture
def memory_as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is allocated and not written holds what lay there: here the worst."""

    def empty_like(tensor: Tensor, **options: Any) -> Tensor:
        return torch.full_like(tensor, torch.nan, **options)

    monkeypatch.setattr(torch, "empty_like", empty_like)


def trained(recipe: Recipe, *, rewound: bool = False) -> list[Tensor]:
    trainer = Trainer(recipe, CPU)
    if rewound:
        trainer.step((FINE,))
        trainer.rewind(0)
    for batch in (TOO_LARGE, FINE, FINE):
        trainer.step((batch,))
    return [weight.detach() for weight in trainer.model.parameters()]


@pytest.mark.usefixtures("memory_as_found")
@pytest.mark.parametrize("rewound", [False, True])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "foreach"])
def test_a_discarded_first_step_leaves_no_trace(*, fused: bool, rewound: bool) -> None:
    plain = replace(recipe(), scale_gradients=False)
    expected = Trainer(plain, CPU)
    for _ in range(2):
        expected.step((FINE,))
    weights = trained(recipe(fused=True) if fused else recipe(foreach=True), rewound=rewound)
    torch.testing.assert_close(weights, [weight.detach() for weight in expected.model.parameters()])


def test_momentum_that_cannot_be_begun_is_refused() -> None:
    with pytest.raises(Refused, match="fused SGD with dampening"):
        Trainer(recipe(fused=True, dampening=0.1), CPU)


def test_dampening_without_a_scaler_is_as_torch_has_it() -> None:
    Trainer(replace(recipe(fused=True, dampening=0.1), scale_gradients=False), CPU)
