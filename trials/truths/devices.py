"""Steps whose limit is a part of the device."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.workload import Recipe
from trials.truths.parts import Offset, mean_square, pinned, recipe


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


class Chain(nn.Module):
    """Pointwise operations one after the other, which a compiler would make one kernel of."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4096))

    def forward(self, x: Tensor) -> Tensor:  # [B, 4096]
        for _ in range(12):
            x = functional.gelu(x * self.scale) + 0.1
        return x


def pointwise(device: torch.device) -> Recipe:
    """A chain of pointwise operations over 256 MiB."""
    with device:
        model = Offset(nn.Sequential(Chain()), torch.randn(16_384, 4096))
    return recipe(model, mean_square, (pinned(torch.zeros(1), device),))


class Attending(nn.Module):
    """Attention over a long sequence and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(4, 16, 8192, 128))

    def forward(self, x: Tensor) -> Tensor:  # [1]
        held = self.queries + x
        with torch.autocast(held.device.type, dtype=torch.bfloat16):
            low = held.bfloat16()
            return functional.scaled_dot_product_attention(low, low, low)


def attention(device: torch.device) -> Recipe:
    """Attention of 16 heads over 8,192 places."""
    with device:
        model = Attending()
    return recipe(model, mean_square, (pinned(torch.zeros(1), device),))


class Scans(nn.Module):
    """Running sums over a few long rows: a block of threads for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:  # [4, 1048576]
        for _ in range(6):
            x = torch.cumsum(x * self.scale, dim=1) * 1e-6
        return x


def narrow(device: torch.device) -> Recipe:
    """Long kernels of four blocks."""
    with device:
        model = Offset(nn.Sequential(Scans()), torch.randn(4, 2**20))
    return recipe(model, mean_square, (pinned(torch.zeros(1), device),))
