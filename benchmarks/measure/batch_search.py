"""The search for the largest batch that fits, before the measurement: ``batch=auto``.

Powers of two and the halves in between are tried with real steps: upwards in doublings from the
preset's batch, then by bisection. The steps are eager, so that a case and its compiled neighbour
get the same batch. They may use a share of the memory only: compiled code, graphs and fragmentation
need the rest.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from benchmarks.catalog.catalog import Refused
from benchmarks.measure import batch_source, flags, flex
from benchmarks.measure.failures import is_out_of_memory
from benchmarks.measure.timestamps import drain
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

Told = TypeVar("Told")

MOST = 2**20
"""No batch beyond this is tried."""
SHARE = 0.92
"""Of the device's memory, so much is for the trial steps."""
STEPS = 3
"""Steps of a trial, each with its own batch on the device: as far as the host runs ahead."""
SAMPLES = 8
"""Samples that are really read, and repeated to fill a batch."""


def sizes(divisor: int = 1, most: int = MOST) -> tuple[int, ...]:
    """1, 2, 3, 4, 6, 8, 12, 16, 24 ...: those that ``divisor`` divides, up to ``most``."""
    powers = [2**k for k in range(most.bit_length())]
    between = [3 * power for power in powers]
    return tuple(n for n in sorted({*powers, *between}) if n <= most and n % divisor == 0)


def largest(fits: Callable[[int], bool], candidates: Sequence[int], start: int) -> int | None:
    """The largest of the ascending ``candidates`` that fits; None if none does.

    The search begins at ``start``. If a batch fits, every smaller one is taken to fit.
    """
    usual = max((at for at, size in enumerate(candidates) if size <= start), default=0)
    good, bad, stride = -1, len(candidates), 2  # two candidates further is twice the batch
    at = usual
    while at < bad and fits(candidates[at]):
        good, at = at, min(at + stride, len(candidates) - 1)
        if good == at:
            break
    else:
        bad = min(at, bad)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(candidates[middle]):
            good = middle
        else:
            bad = middle
    return candidates[good] if good >= 0 else None


def settled(recipe: Recipe, device: torch.device, seed: int) -> Recipe:
    """``recipe`` with the largest batch if it asks for that; else unchanged.

    Raises:
        Refused: no batch of these sizes can be cut into the parts that the recipe asks for.
        MemoryError: not even the smallest batch fits.
    """
    if not recipe.largest_batch:
        return recipe
    candidates = sizes(recipe.accumulation)
    if not candidates:
        raise Refused(
            f"batch=auto tries powers of two and the halves in between, and {recipe.accumulation} "
            "(accumulation=) divides none of them: choose a batch by number."
        )
    eager, sample = prepared(recipe)

    def fits(batch: int) -> bool:
        sized = replace(eager, batch=batch)
        does_fit = trial(sized, device, filled(sample, batch), seed, lambda _: True) is not None
        flex.forget_shapes()
        sys.stderr.write(f"A batch of {batch} {'fits' if does_fit else 'does not fit'}.\n")
        return does_fit

    with share(device):
        batch = largest(fits, candidates, recipe.batch)
    if batch is None:
        raise MemoryError(f"a batch of {candidates[0]} does not fit")
    return replace(recipe, batch=batch, largest_batch=False)


def prepared(recipe: Recipe) -> tuple[Recipe, Batch]:
    """The recipe of trials, which are eager, with its flags in force; and samples for them."""
    eager = replace(recipe, compile_options=None, graphs=False, cudnn_benchmark=False)
    flags.put_in_force(eager)
    # cuDNN keeps its plans by shape and by this flag. Without the flag the timed passes would reuse
    # a trial's plan, which was not benchmarked. The next `put_in_force` clears the flag.
    torch.backends.cudnn.deterministic = True
    return eager, batch_source.first(recipe, SAMPLES)


@contextmanager
def share(device: torch.device) -> Iterator[None]:
    """Hold the allocator to `SHARE` of a GPU's memory."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.set_per_process_memory_fraction(SHARE, device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def filled(sample: Sequence[Tensor], batch: int) -> Batch:
    """``sample`` repeated to so many samples."""
    times = math.ceil(batch / len(sample[0]))
    return tuple(t.repeat(times, *[1] * (t.dim() - 1))[:batch] for t in sample)


def trial(
    recipe: Recipe,
    device: torch.device,
    batch: Batch,
    seed: int,
    then: Callable[[Callable[[int], None]], Told],
) -> Told | None:
    """Take a few steps of ``recipe``; None if they do not fit. Model and memory are left as found.

    ``then`` may take further steps, by their number, and its answer is returned.
    """
    trainer = Trainer(recipe, device)
    if trainer.scaler is not None:
        # At its usual first scale these few steps may all overflow, and a step that is discarded
        # makes none of the state that the optimizer will hold.
        trainer.scaler = torch.amp.GradScaler(device.type, init_scale=1.0)
    take: Callable[[int], None] | None
    told: Told | None
    try:
        held = [trainer.place(batch) for _ in range(STEPS)]
        take = partial(_take, trainer, held, device)
        take(STEPS)
        told = then(take)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        told = None
    held, take = [], None
    trainer.optimizer.zero_grad(set_to_none=True)
    trainer.rewind(seed)
    del trainer
    gc.collect()  # a traceback holds the tensors of the step that failed
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return told


def _take(trainer: Trainer, held: Sequence[Batch], device: torch.device, count: int) -> None:
    for number in range(count):
        trainer.step(held[number % len(held)])
    drain(device)
