"""Follows a trainer over a few steps; keeps what it computed from one process to the next."""

from __future__ import annotations

import math
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.diagnosis.parity import STEPS, Trajectory
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch

ENTRIES = 4096
"""Entries of each parameter tensor that are compared: a wrong update is wrong in many."""
PRELUDE = 4
"""Untimed steps for compilation and capture."""
SETTLING = 20
"""Most steps that a gradient scaler may need to find its scale."""


HOPELESS = 4.0
"""If the first steps foretell so many times the limit, following gives up at once."""


class TooSlow(Exception):
    """The steps would take longer than allowed; the message says how long."""


def follow(
    trainer: Trainer,
    batches: Sequence[Batch],
    seed: int,
    *,
    steps: int = STEPS,
    limit_s: float = float("inf"),
    tell: Callable[[int], None] = lambda step: None,  # noqa: ARG005
) -> Trajectory:
    """Take ``steps`` steps from the initial weights, over ``batches`` in turn.

    Raises `TooSlow` once the steps so far foretell more than ``limit_s`` seconds.
    """
    settle(trainer, batches)
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


def settle(trainer: Trainer, batches: Sequence[Batch]) -> None:
    """Take a few steps, in which things compile and a gradient scaler finds its scale."""
    for number in range(SETTLING):
        scale = trainer.scale
        trainer.step(trainer.place(batches[number % len(batches)]))
        if number + 1 >= PRELUDE and trainer.scale >= scale:
            return


@contextmanager
def _norms(trainer: Trainer) -> Iterator[list[float]]:
    """The gradient's norm before each update; none where a graph replays the update."""
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


KEPT = 60
"""Files kept, newest first: each night's code has references of its own."""


@dataclass(frozen=True)
class Shelf:
    """A folder of trajectories by key. Each file is complete or absent, even with several
    writers."""

    folder: Path

    def load(self, key: str) -> Trajectory | None:
        """Return the trajectory under ``key``; None if there is none, or it cannot be read."""
        try:
            with self._path(key).open("rb") as file, np.load(file, allow_pickle=False) as kept:
                steps = (int(step) for step in kept["gradient_steps"])
                norms = (float(norm) for norm in kept["gradient_norms"])
                return Trajectory(
                    tuple(float(loss) for loss in kept["losses"]),
                    dict(zip(steps, norms, strict=True)),
                    kept["update"],
                    tuple(int(part) for part in kept["parts"]),
                    int(kept["skips"]),
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def keep(self, key: str, trajectory: Trajectory) -> None:
        """Keep ``trajectory``; a full disk is ignored."""
        half = self.folder / f".{key}.{os.getpid()}"
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with half.open("wb") as file:
                    np.savez(
                        file,
                        losses=np.array(trajectory.losses),
                        gradient_steps=np.array(list(trajectory.gradient_norms)),
                        gradient_norms=np.array(list(trajectory.gradient_norms.values())),
                        update=trajectory.update,
                        parts=np.array(trajectory.parts, dtype=np.int64),
                        skips=np.array(trajectory.skips),
                    )
                half.replace(self._path(key))
            finally:
                half.unlink(missing_ok=True)
            self._trim()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npz"

    def _trim(self) -> None:
        files = sorted(self.folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)
        for path in files[:-KEPT]:
            path.unlink(missing_ok=True)
