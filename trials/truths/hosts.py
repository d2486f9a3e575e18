"""Steps in which the device waits for the host."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.workload import Recipe
from trials.truths.parts import mean_square, pinned, recipe

WIDTH = 64
"""Of the tiny net: kernels that take no longer than their launch."""
DEPTH = 64
READS = 48
ROOM_B = 6 * 2**30
"""Memory of the step that thrashes its allocator, and the sizes that it asks for in turn."""
LEAST_B, MOST_B, GROWTH_B = 3 * 2**30, 5 * 2**30, 2**26


def tiny_net() -> nn.Sequential:
    """A deep net of kernels that take no longer than their launch."""
    layers = (part for _ in range(DEPTH) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    return nn.Sequential(*layers)


def tiny(device: torch.device) -> Recipe:
    """A tiny net at batch 1."""
    return recipe(tiny_net().to(device), mean_square, (pinned(torch.randn(1, WIDTH), device),))


class Reading(nn.Module):
    """Layers whose largest value is read on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(READS))

    def forward(self, x: Tensor) -> Tensor:  # [B, 512]
        largest = 0.0
        for layer in self.layers:
            x = torch.tanh(layer(x))
            largest = max(largest, x.abs().max().item())
        return x * min(1.0, 1.0 / largest)


def reading(device: torch.device) -> Recipe:
    """48 `.item()` a step, each of which waits for the device."""
    return recipe(Reading().to(device), mean_square, (pinned(torch.randn(256, 512), device),))


def slow_optimizer(device: torch.device) -> Recipe:
    """Adam over 400 small parameters, one after the other in Python."""
    with device:
        model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(200)))
    batch = (pinned(torch.randn(8192, 256), device),)
    made = recipe(model, mean_square, batch)
    return replace(made, optimizer=partial(torch.optim.Adam, foreach=False, fused=False))


class Hungry(nn.Module):
    """Asks for a larger piece of memory in each step, which no piece that is kept can serve."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.layer = nn.Linear(1024, 1024).to(device)
        self.sizes_b = itertools.cycle(range(LEAST_B, MOST_B, GROWTH_B))

    def forward(self, x: Tensor) -> Tensor:  # [B, 1024]
        size_b = next(self.sizes_b)
        if size_b == LEAST_B:
            torch.cuda.empty_cache()
        piece = torch.empty(size_b // 4, device=x.device)
        piece[:1024] = 0.0
        out: Tensor = self.layer(x + piece[:1024])
        return out


def thrashing(device: torch.device) -> Recipe:
    """Memory so short that the allocator gives back in each step what the last one needed."""
    if device.type == "cuda":
        total_b = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(ROOM_B / total_b, device)
    batch = (pinned(torch.randn(64, 1024), device),)
    return recipe(Hungry(device), mean_square, batch)


class Restless(nn.Module):
    """Changes its mode in each fourth step, which the compiler guards."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(256, 256)
        self.turn = 0
        self._compiled = torch.compile(self._by_mode, dynamic=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, 256]
        self.turn += 1
        out: Tensor = self._compiled(x, f"mode {self.turn // 4}")
        return out

    def _by_mode(self, x: Tensor, mode: str) -> Tensor:
        out: Tensor = self.layer(x)
        return -out if mode == "never" else out


def restless(device: torch.device) -> Recipe:
    """A step that is compiled anew in each fourth step."""
    torch._dynamo.config.recompile_limit = 100_000
    torch._dynamo.config.accumulated_recompile_limit = 100_000
    return recipe(Restless().to(device), mean_square, (pinned(torch.randn(64, 256), device),))
