"""Measures a case as `python -m benchmarks` does, with some more work in its step.

``python -m agreement.planted KIND SECONDS WORKLOAD AXIS=VALUE ... [options]``: KIND is ``copy``
(bytes moved on the device) or ``product`` (matrix products), and SECONDS what it takes by itself,
in a steady loop of nothing else; 0 plants nothing and is otherwise the same program.
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
ROWS, COLUMNS = 8192, 4096
"""Of the matrices by which the rate is found; a row of a copy has 16 times as many bytes."""


def work(kind: str, rows: int, device: torch.device) -> Callable[[], object]:
    """So many rows of that kind of work, on buffers of its own."""
    if kind == "copy":
        source = torch.ones(rows, COLUMNS * 16, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        return lambda: target.copy_(source)
    left = torch.randn(rows, COLUMNS, dtype=torch.bfloat16, device=device)
    right = torch.randn(COLUMNS, COLUMNS, dtype=torch.bfloat16, device=device)
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)


def rate(kind: str, device: torch.device) -> float:
    """Rows per second of that work by itself, once the clocks are what the load allows."""
    once = work(kind, ROWS, device)
    once()
    drain(device)
    from_s, calls = time.perf_counter(), 0
    while time.perf_counter() - from_s < STEADY_S:
        for _ in range(20):
            once()
        drain(device)
        calls += 20
    return calls * ROWS / (time.perf_counter() - from_s)


def planted(recipe: Recipe, kind: str, seconds: float, device: torch.device) -> Recipe:
    """``recipe`` whose loss does that much more before it."""
    more = work(kind, max(1, round(seconds * rate(kind, device))), device)
    plain = recipe.loss

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            more()
        return plain(model, batch)

    return replace(recipe, loss=loss)


def run(kind: str, seconds: float) -> int:
    """Measure what ``sys.argv`` says with the work planted into every recipe."""
    build = session.build

    def slower(case: Case, context: Context) -> Recipe:
        recipe = build(case, context)
        return planted(recipe, kind, seconds, context.device) if seconds else recipe

    session.build = slower
    return main()


if __name__ == "__main__":
    kind_, seconds_ = sys.argv[1], float(sys.argv[2])
    del sys.argv[1:3]
    sys.exit(run(kind_, seconds_))
