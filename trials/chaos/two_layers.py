"""A model so small that a gang of it starts fast, for `trials.chaos.gangs`."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.workload import Batch, Context, Recipe

PRESETS = {"tiny": {"batch": 8}}


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Pull the output to zero."""
    made: Tensor = model(batch[0])
    return made.square().mean()


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Return the recipe; it reads no file."""
    return Recipe(
        model=nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)),
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 1e-3},
        dataset=TensorDataset(torch.randn(64, 64)),
        batch=size["batch"],
    )
