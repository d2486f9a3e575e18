"""A model of one's own with a planted waste of each kind, chosen by the preset.

``throughline bench trials.planted_waste:build --preset wait --profile`` measures one;
``python -m trials.inside FOLDER planted`` measures all of them through the service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch._dynamo  # a break is planted by its own name
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.workload import Batch, Context, Recipe

ITEM = "row"
_SIZE = {"batch": 64, "rows": 1_024, "width": 1_024, "blocks": 8}
KINDS = ("clean", "copy", "wait", "break", "fragments", "module", "hidden")
PRESETS = {kind: {**_SIZE, "kind": number} for number, kind in enumerate(KINDS)}
_TINY = {"batch": 8, "rows": 32, "width": 64, "blocks": 8}
PRESETS |= {"tiny": {**_TINY, "kind": 2}, "tiny-break": {**_TINY, "kind": 3}}
SAMPLES = 256
EVERY = 10
"""Steps from one wait to the next, as of a loss that is printed."""
SLOW = 3
"""The block that does its work twice."""
SIZES_MIB = (24, 10, 34, 12, 52, 14, 70, 16)
"""Sizes that come in turn: what is freed of one fits none of the next."""


class Block(nn.Module):
    """A product, and a waste after it."""

    def __init__(self, width: int, waste: Callable[[Tensor], Tensor], times: int = 1) -> None:
        super().__init__()
        self.product, self.waste, self.times = nn.Linear(width, width), waste, times

    def forward(self, x: Tensor) -> Tensor:  # [B, rows, width]
        """Return [B, rows, width]."""
        for _ in range(self.times):
            x = self.waste(torch.relu(self.product(x)))
        return x


class Net(nn.Module):
    """Blocks one after another; ``kind`` says which waste they have."""

    def __init__(self, kind: str, width: int, blocks: int) -> None:
        super().__init__()
        self.kind, self.steps = kind, 0
        self.kept: list[Tensor] = []
        waste = _WASTES.get(kind, _same)
        slow = SLOW if kind == "module" else -1
        self.blocks = nn.Sequential(
            *(Block(width, waste, 2 if place == slow else 1) for place in range(blocks))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean square of what the blocks make of x [B, rows, width]."""
        if self.kind == "fragments":
            self._fragment(x.device)
        loss: Tensor = self.blocks(x).pow(2).mean()
        if self.kind == "wait":
            self._report(loss)
        return loss

    def _report(self, loss: Tensor) -> None:
        self.steps += 1  # here alone: a compiled step would be compiled anew for each number
        if self.steps % EVERY == 0:
            print(f"loss {loss.item():.3f}", end="\r")

    def _fragment(self, device: torch.device) -> None:
        """Hold every other one of blocks that grow from step to step."""
        self.steps += 1
        grown = [(size + self.steps % 7) * 2**20 for size in SIZES_MIB * 8]
        made = [torch.empty(size, dtype=torch.uint8, device=device) for size in grown]
        self.kept = made[::2]


def _same(x: Tensor) -> Tensor:
    return x


def _cloned(x: Tensor) -> Tensor:
    return x.clone()


def _broken(x: Tensor) -> Tensor:
    torch._dynamo.graph_break()
    return x


def _hidden(x: Tensor) -> Tensor:
    """Count values: the kernel's launch needs the largest one, which it reads back by itself."""
    torch.bincount((x.detach()[0, 0, :8] > 0).long())
    return x


_WASTES = {"copy": _cloned, "break": _broken, "hidden": _hidden}


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the model's own loss."""
    value: Tensor = model(batch[0])
    return value


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Propose the recipe of the preset's waste."""
    torch.manual_seed(context.seed)
    return Recipe(
        model=Net(KINDS[size["kind"]], size["width"], size["blocks"]),
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 1e-4},
        dataset=TensorDataset(torch.randn(SAMPLES, size["rows"], size["width"])),
        batch=size["batch"],
        items_per_sample=size["rows"],
        data_name="planted-waste-v1",
    )
