"""Measures a case as `python -m benchmarks` does, with some more work in its step.

``python -m agreement.planted BYTES SIDE WORKLOAD AXIS=VALUE ... [options]`` waits for a line on
stdin once everything is imported, and measures then. Side B copies BYTES on the device in each
step; side A has the same buffers and leaves them alone, so that both find the same memory.

``python -m agreement.planted`` prints how many bytes such copies move in a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from benchmarks.__main__ import main
from benchmarks.contracts import Case
from benchmarks.measure import session
from benchmarks.measure.marks import drain
from benchmarks.workload import Batch, Context, Recipe

STEADY_S = 0.5
COPIES = 8
"""One after another, of an eighth each: buffers that leave the case its memory, and no cache."""
TRIED_B = 2**30
"""Of the copies by which the rate is found."""


def copies(bytes_: int, device: torch.device) -> Callable[[], object]:
    """Copies of so many bytes, between buffers of their own."""
    source = torch.ones(max(1, bytes_ // COPIES), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def once() -> None:
        for _ in range(COPIES):
            target.copy_(source)

    return once


def rate(device: torch.device) -> float:
    """Bytes per second that are copied in a loop of nothing else."""
    once = copies(TRIED_B, device)
    once()
    drain(device)
    from_s, calls = time.perf_counter(), 0
    while time.perf_counter() - from_s < STEADY_S:
        for _ in range(20):
            once()
        drain(device)
        calls += 20
    return calls * TRIED_B / (time.perf_counter() - from_s)


def planted(recipe: Recipe, bytes_: int, side: str, device: torch.device) -> Recipe:
    """``recipe`` with buffers for such copies; on side B its loss makes them first."""
    more = copies(bytes_, device)
    plain = recipe.loss

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        with torch.no_grad():
            more()
        return plain(model, batch)

    def idle(model: nn.Module, batch: Batch, _kept: object = more) -> Tensor:
        return plain(model, batch)

    return replace(recipe, loss=loss if side == "B" else idle)


def run(bytes_: int, side: str) -> int:
    """Measure what ``sys.argv`` says with the work planted into every recipe."""
    build = session.build

    def slower(case: Case, context: Context) -> Recipe:
        return planted(build(case, context), bytes_, side, context.device)

    session.build = slower
    return main()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.stdout.write(f"{rate(torch.device('cuda' if torch.cuda.is_available() else 'cpu'))}\n")
        sys.exit()
    bytes_, side_ = int(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    sys.stdin.readline()
    sys.exit(run(bytes_, side_))
