"""Follows a trainer over a few steps and notes what it computed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.diagnosis.parity import STEPS, Trajectory
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch

ENTRIES = 4096
"""Of each parameter tensor that are compared: a wrong update is wrong in more than a few."""
PRELUDE = 4
"""Steps before it counts: what compiles, or is captured, does so for these batches."""
SETTLING = 20
"""Steps in which a gradient scaler may look for its scale at most."""


HOPELESS = 4.0
"""Times the limit from which the first few steps are enough to give up."""


class TooSlow(Exception):
    """So many steps would take longer than is allowed; the message says how long."""


def follow(
    trainer: Trainer,
    batches: Sequence[Batch],
    seed: int,
    *,
    steps: int = STEPS,
    limit_s: float = float("inf"),
    tell: Callable[[int], None] = lambda step: None,  # noqa: ARG005
) -> Trajectory:
    """Take ``steps`` steps from the initial weights, over ``batches`` round and round.

    Args:
        trainer: what steps; it may have been timed before.
        batches: host batches.
        seed: of whatever is drawn on the way.
        steps: how many.
        limit_s: seconds that they may take, as the steps so far foretell.
        tell: told each step.

    Raises:
        TooSlow: they would take longer.
    """
    _settle(trainer, batches)
    trainer.rewind(seed)
    before, update = _entries(trainer), np.zeros(0, np.float32)
    losses: list[float] = []
    norms: dict[int, float] = {}
    skips = 0
    from_s = time.perf_counter()
    with _norms(trainer) as seen:
        for step in range(1, steps + 1):
            scale = trainer.scale
            losses.append(float(trainer.step(trainer.place(batches[(step - 1) % len(batches)]))))
            skipped = trainer.scale < scale  # its gradient was not finite, and no wonder
            skips += skipped
            if seen and not skipped:
                norms[step] = seen[-1]
            if step == 1 and not skipped:
                update = _entries(trainer) - before
            seen.clear()
            if step == 1:
                from_s = time.perf_counter()  # the first step may compile or autotune
            else:
                _in_time((time.perf_counter() - from_s) / (step - 1) * steps, step, steps, limit_s)
            tell(step)
    return Trajectory(tuple(losses), norms, update, _parts(trainer), skips)


def _in_time(need_s: float, step: int, steps: int, limit_s: float) -> None:
    if need_s > (limit_s if step > steps // 4 else HOPELESS * limit_s):
        raise TooSlow(f"{steps} steps of it take {need_s:,.0f} s")


def _settle(trainer: Trainer, batches: Sequence[Batch]) -> None:
    for number in range(SETTLING):
        scale = trainer.scale
        trainer.step(trainer.place(batches[number % len(batches)]))
        if number + 1 >= PRELUDE and trainer.scale >= scale:
            return


@contextmanager
def _norms(trainer: Trainer) -> Iterator[list[float]]:
    """The gradient's norm before each update; none where the update is replayed from a graph."""
    norms: list[float] = []

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return  # nothing may be read there
        gradients = [
            weight.grad
            for group in optimizer.param_groups
            for weight in group["params"]
            if weight.grad is not None
        ]
        norm = float(torch.nn.utils.get_total_norm(gradients))
        scale = getattr(optimizer, "grad_scale", None)  # a fused update divides by it itself
        norms.append(norm / float(scale) if scale is not None else norm)

    hook = trainer.optimizer.register_step_pre_hook(note)
    try:
        yield norms
    finally:
        hook.remove()


def _entries(trainer: Trainer) -> NDArray[np.float32]:
    return torch.cat(_samples(trainer)).cpu().numpy()


def _parts(trainer: Trainer) -> tuple[int, ...]:
    return tuple(len(sample) for sample in _samples(trainer))


def _samples(trainer: Trainer) -> list[Tensor]:
    return [_some(weight.detach()) for weight in trainer.model.parameters() if weight.numel()]


def _some(weight: Tensor) -> Tensor:
    # Whatever a tensor's layout in memory, its entries are taken in the order of its indices.
    flat = weight.reshape(-1)
    stride = -(-flat.numel() // ENTRIES)
    kept = flat[::stride].float()
    weighted: Tensor = kept * math.sqrt(flat.numel() / kept.numel())
    return weighted
