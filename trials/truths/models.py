"""Six steps whose limit is known beforehand, each as small as it can be and still have it.

They are built like workloads, and measured by the same passes. Sizes are for a data-centre GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks.contracts import Bottleneck
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

WIDTH = 64
"""Of the tiny net: kernels that take no longer than their launch."""
DEPTH = 64


class Premade(Dataset[Batch]):
    """Batches that cost nothing, or a known time of sleep; the collation gives one batch again."""

    def __init__(self, batch: Batch, sleep_s: float = 0.0) -> None:
        self._batch = batch
        self._sleep_s = sleep_s

    def __len__(self) -> int:
        return 1_000_000

    def __getitems__(self, indices: Sequence[int]) -> list[Batch]:
        """Take the time of one batch, which a loader asks for in one call."""
        if self._sleep_s:
            time.sleep(self._sleep_s)
        return [(torch.empty(0),)] * len(indices)

    def collate(self, samples: Sequence[Batch]) -> Batch:
        """The batch that all samples make."""
        return self._batch


def recipe(
    model: nn.Module,
    loss: Callable[[nn.Module, Batch], Tensor],
    batch: Batch,
    sleep_s: float = 0.0,
) -> Recipe:
    """A step over ``batch``, which the loader gives each time."""
    return Recipe(
        model=model,
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=lambda net: net.parameters(),
        dataset=Premade(batch, sleep_s),
        batch=len(batch[0]),
        optimizer_options={"lr": 1e-6},
        non_blocking=batch[0].is_pinned(),
    )


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """A batch whose copy makes nobody wait, so that the step's own limit is all there is."""
    return tensor.pin_memory() if device.type == "cuda" else tensor


def mean_square(model: nn.Module, batch: Batch) -> Tensor:
    out: Tensor = model(batch[0]).float().pow(2).mean()
    return out


def sleeping(device: torch.device) -> Recipe:
    """A data set that sleeps for 20 ms a batch, before a step of less than one."""
    model = nn.Linear(1024, 1024).to(device)
    return recipe(model, mean_square, (torch.randn(64, 1024),), sleep_s=0.02)


class Halves(nn.Module):
    """Reads a huge input once."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(256, 1)

    def forward(self, x: Tensor) -> Tensor:  # [B, 262144]
        out: Tensor = self.out(x.view(x.shape[0], -1, 256).mean(dim=1))
        return out


def pageable(device: torch.device) -> Recipe:
    """Half a GiB of pageable memory to be copied, before a step of less than a millisecond."""
    return recipe(Halves().to(device), mean_square, (torch.randn(512, 262_144),))


def tiny(device: torch.device) -> Recipe:
    """A deep net of kernels that take no longer than their launch, at batch 1."""
    layers = (part for _ in range(DEPTH) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    batch = (pinned(torch.randn(1, WIDTH), device),)
    return recipe(nn.Sequential(*layers).to(device), mean_square, batch)


class Offset(nn.Module):
    """Layers over an input that lies on the device, so that no loader has to keep up with it."""

    def __init__(self, layers: nn.Sequential, offset: Tensor) -> None:
        super().__init__()
        self.layers = layers
        self.register_buffer("offset", offset, persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # [1]
        out: Tensor = self.layers(self.offset + x)
        return out


def products(device: torch.device) -> Recipe:
    """Matrix products in bf16, large enough to reach the device's peak."""
    with device:
        layers = nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(8)))
        model = Offset(layers, torch.randn(8192, 4096))
    return replace(
        recipe(model, mean_square, (pinned(torch.zeros(1), device),)), autocast=torch.bfloat16
    )


def norms(device: torch.device) -> Recipe:
    """Normalisations and activations over feature maps that no cache holds."""
    with device:
        pairs = (part for _ in range(12) for part in (nn.BatchNorm2d(256), nn.ReLU()))
        model = Offset(nn.Sequential(*pairs), torch.randn(64, 256, 56, 56))
    return recipe(model, mean_square, (pinned(torch.zeros(1), device),))


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


@dataclass(frozen=True)
class Truth:
    """A step and what has to be said of it."""

    build: Callable[[torch.device], Recipe]
    limits: frozenset[Bottleneck]
    trainer: type[Trainer] = Trainer
    by_copy: bool = False
    """Whether copying has to be the larger part of what the input costs."""


_ON_DEVICE = {Bottleneck.COMPUTE, Bottleneck.MEMORY, Bottleneck.MIXED}

TRUTHS: Mapping[str, Truth] = {
    "sleeping": Truth(sleeping, frozenset({Bottleneck.INPUT})),
    "pageable": Truth(pageable, frozenset({Bottleneck.INPUT}), by_copy=True),
    "tiny": Truth(tiny, frozenset({Bottleneck.OVERHEAD})),
    "graphed": Truth(tiny, frozenset(_ON_DEVICE), trainer=Graphed),
    "products": Truth(products, frozenset({Bottleneck.COMPUTE})),
    "norms": Truth(norms, frozenset({Bottleneck.MEMORY})),
}
