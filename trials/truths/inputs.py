"""Steps that wait for their input."""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.workload import Recipe
from trials.truths.parts import mean_square, recipe

READ_B = 2**26
CROWD = 2
"""Loader processes for each CPU, where the processor is what they lack."""
MOST_PROCESSES = 32


def _short_step(device: torch.device) -> tuple[nn.Module, tuple[Tensor]]:
    """A step of less than a millisecond."""
    return nn.Linear(1024, 1024).to(device), (torch.randn(64, 1024),)


def sleeping(device: torch.device) -> Recipe:
    """A data set that sleeps for 20 ms a batch."""
    model, batch = _short_step(device)
    return recipe(model, mean_square, batch, partial(time.sleep, 0.02))


def one_process(device: torch.device) -> Recipe:
    """One loader process that computes for 20 ms a batch."""
    model, batch = _short_step(device)
    return recipe(model, mean_square, batch, partial(_compute, 0.02), processes=1)


def crowded(device: torch.device) -> Recipe:
    """More loader processes than CPUs, each of which computes for 0.2 s a batch."""
    model, batch = _short_step(device)
    processes = min(MOST_PROCESSES, CROWD * len(os.sched_getaffinity(0)))
    return recipe(model, mean_square, batch, partial(_compute, 0.2), processes)


def from_disk(device: torch.device) -> Recipe:
    """Two loader processes that read 64 MiB a batch which no cache of the kernel holds."""
    model, batch = _short_step(device)
    handle, name = tempfile.mkstemp(prefix="tl-truth-")
    with os.fdopen(handle, "wb") as file:
        file.write(os.urandom(2**20) * (READ_B // 2**20))
        file.flush()
        os.fsync(handle)
    return recipe(model, mean_square, batch, partial(_read, Path(name)), processes=2)


def _compute(seconds: float) -> None:
    until_s = time.process_time() + seconds
    while time.process_time() < until_s:
        pass


def _read(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.read(2**20):
            pass


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
