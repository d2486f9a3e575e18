"""Measures a case as `python -m benchmarks` does, with some more work in its step.

``python -m trials.agreement.planted KIND AMOUNT SIDE WORKLOAD AXIS=VALUE ... [options]`` waits
for a line on stdin once everything is imported, and measures then. Side B does AMOUNT of such work
in each step; side A has the same buffers and leaves them alone, so that both find the same memory.

``python -m trials.agreement.planted KIND`` prints how much of it is done in a second alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

import torch
from torch import Tensor, nn

from benchmarks.__main__ import main
from benchmarks.contracts import Case
from benchmarks.measure import session
from benchmarks.measure.timestamps import drain
from benchmarks.workload import Batch, Context, Recipe

STEADY_S = 1.0
PIECES = 8
"""The work is done in so many pieces, one after another, with one piece's buffers."""
WIDTH = 4096


class Kind(StrEnum):
    """What keeps the device busy: at a power limit the two do not slow a step alike."""

    COPIES = "copies"
    """Copied bytes, which want less power than products do."""
    PRODUCTS = "products"
    """Rows of a bf16 matrix product, [rows, `WIDTH`] x [`WIDTH`, `WIDTH`]."""


TRIED = {Kind.COPIES: 2**30, Kind.PRODUCTS: 2**16}
"""How much is done at once while the rate is found."""


def work(kind: Kind, amount: int, device: torch.device) -> Callable[[], object]:
    """Work of one kind, between buffers of its own."""
    piece = max(1, amount // PIECES)
    make = _copy if kind is Kind.COPIES else _product
    one = make(piece, device)

    def once() -> None:
        for _ in range(PIECES):
            one()

    return once


def _copy(bytes_: int, device: torch.device) -> Callable[[], object]:
    source = torch.ones(bytes_, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _product(rows: int, device: torch.device) -> Callable[[], object]:
    # Random values: products of constants want less power.
    left = torch.randn(rows, WIDTH, dtype=torch.bfloat16, device=device)
    right = torch.randn(WIDTH, WIDTH, dtype=torch.bfloat16, device=device)
    product = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=product)


def rate(kind: Kind, device: torch.device) -> float:
    """How much is done per second in a loop of nothing else."""
    once = work(kind, TRIED[kind], device)
    once()
    drain(device)
    from_s, calls = time.perf_counter(), 0
    while time.perf_counter() - from_s < STEADY_S:
        for _ in range(20):
            once()
        drain(device)
        calls += 20
    return calls * TRIED[kind] / (time.perf_counter() - from_s)


def planted(recipe: Recipe, more: Callable[[], object], side: str) -> Recipe:
    """``recipe`` that keeps the buffers of ``more``; on side B its loss does that work first."""
    plain = recipe.loss

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        with torch.no_grad(), torch.autocast(batch[0].device.type, enabled=False):
            more()
        return plain(model, batch)

    def idle(model: nn.Module, batch: Batch, _kept: object = more) -> Tensor:
        return plain(model, batch)

    return replace(recipe, loss=loss if side == "B" else idle)


def run(kind: Kind, amount: int, side: str) -> int:
    """Measure what ``sys.argv`` says with the work planted into every recipe."""
    build = session.build

    def slower(case: Case, context: Context) -> Recipe:
        return planted(build(case, context), work(kind, amount, context.device), side)

    session.build = slower
    return main()


if __name__ == "__main__":
    kind_ = Kind(sys.argv[1])
    if len(sys.argv) == 2:
        device_ = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        sys.stdout.write(f"{rate(kind_, device_)}\n")
        sys.exit()
    amount_, side_ = int(sys.argv[2]), sys.argv[3]
    del sys.argv[1:4]
    sys.stdin.readline()
    sys.exit(run(kind_, amount_, side_))
