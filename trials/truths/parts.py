"""The parts of a step whose limit is known beforehand, as a workload has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks.contracts import Bottleneck
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe


@dataclass(frozen=True)
class Truth:
    """A step and what has to be said of it."""

    build: Callable[[torch.device], Recipe]
    limit: Bottleneck
    trainer: type[Trainer] = Trainer
    by_copy: bool = False
    """Whether copying has to be the larger part of what the input costs."""
    says: str = ""
    """What the sentence has to name."""


class Premade(Dataset[Batch]):
    """One batch again and again, at the cost of ``prepare``."""

    def __init__(self, batch: Batch, prepare: Callable[[], object] | None = None) -> None:
        self._batch = batch
        self._prepare = prepare

    def __len__(self) -> int:
        return 1_000_000

    def __getitems__(self, indices: Sequence[int]) -> list[Batch]:
        """Pay for one batch, which a loader asks for in one call."""
        if self._prepare is not None:
            self._prepare()
        return [(torch.empty(0),)] * len(indices)

    def collate(self, samples: Sequence[Batch]) -> Batch:
        """The batch that all samples make."""
        return self._batch


def recipe(
    model: nn.Module,
    loss: Callable[[nn.Module, Batch], Tensor],
    batch: Batch,
    prepare: Callable[[], object] | None = None,
    processes: int = 0,
) -> Recipe:
    """A step over ``batch``, which the loader gives each time, made by ``processes``."""
    return Recipe(
        model=model,
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=lambda net: net.parameters(),
        dataset=Premade(batch, prepare),
        batch=len(batch[0]),
        optimizer_options={"lr": 1e-6},
        loader_options={"num_workers": processes},
        non_blocking=batch[0].is_pinned(),
    )


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """A batch whose copy makes nobody wait, so that the step's own limit is all there is."""
    return tensor.pin_memory() if device.type == "cuda" else tensor


def mean_square(model: nn.Module, batch: Batch) -> Tensor:
    out: Tensor = model(batch[0]).float().pow(2).mean()
    return out


class Offset(nn.Module):
    """Layers over an input that lies on the device, so that no loader has to keep up with it."""

    def __init__(self, layers: nn.Sequential, offset: Tensor) -> None:
        super().__init__()
        self.layers = layers
        self.register_buffer("offset", offset, persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # [1]
        out: Tensor = self.layers(self.offset + x)
        return out


class Graphed(Trainer):
    """The whole step as one CUDA graph, captured at the first call."""

    _graph: torch.cuda.CUDAGraph | None = None

    def step(self, batch: Batch) -> Tensor:
        if self._graph is None:
            self._capture(batch)
        assert self._graph is not None
        self._given.copy_(batch[0])
        self._graph.replay()
        return self._loss_value

    def _capture(self, batch: Batch) -> None:
        self._given = batch[0].clone()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                super().step((self._given,))
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._loss_value = super().step((self._given,))
        self._graph = graph
