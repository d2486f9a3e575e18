"""The largest batch that fits, found before the measurement: ``batch=auto``.

Powers of two and the halves in between are tried with real steps, first upwards in doublings from
the preset's batch, then by bisection. The steps are eager whatever the case, so that a case and
its compiled neighbour get the same batch, and the allocator is held to a share of the memory, so
that what compiles, graphs or fragments a little more still fits.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.catalog.catalog import Refused
from benchmarks.measure import batch_source, flags, flex
from benchmarks.measure.failures import is_out_of_memory
from benchmarks.measure.timestamps import drain
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

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
    """The largest of ``candidates`` that fits; None if none does.

    Args:
        fits: whether a batch fits; what is smaller than one that fits is taken to fit.
        candidates: in ascending order.
        start: where to begin, such as a batch that is known to be usual.
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
    """``recipe`` with its batch found, if it is to be searched for; else as it is.

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
    eager = replace(recipe, compile_options=None, graphs=False, cudnn_benchmark=False)
    flags.put_in_force(eager)
    # cuDNN's plans are kept by shape and by this flag, and not by whether they were benchmarked:
    # without it the timed passes would run what a trial had chosen without a look. The next
    # `put_in_force` takes it back.
    torch.backends.cudnn.deterministic = True
    sample = batch_source.first(recipe, SAMPLES)

    def fits(batch: int) -> bool:
        does_fit = _fits(replace(eager, batch=batch), device, _filled(sample, batch), seed)
        flex.forget_shapes()
        sys.stderr.write(f"A batch of {batch} {'fits' if does_fit else 'does not fit'}.\n")
        return does_fit

    with _Share(device):
        batch = largest(fits, candidates, recipe.batch)
    if batch is None:
        raise MemoryError(f"a batch of {candidates[0]} does not fit")
    return replace(recipe, batch=batch, largest_batch=False)


class _Share:
    """Holds the allocator to `SHARE` of a GPU's memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __enter__(self) -> None:
        self._limit(SHARE)

    def __exit__(self, *exc: object) -> None:
        self._limit(1.0)

    def _limit(self, share: float) -> None:
        if self._device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(share, self._device)


def _filled(sample: Sequence[Tensor], batch: int) -> Batch:
    times = math.ceil(batch / len(sample[0]))
    return tuple(t.repeat(times, *[1] * (t.dim() - 1))[:batch] for t in sample)


def _fits(recipe: Recipe, device: torch.device, batch: Batch, seed: int) -> bool:
    """Return True if a few steps of ``recipe`` fit; model and memory are left as found."""
    trainer = Trainer(recipe, device)
    if trainer.scaler is not None:
        # At its usual first scale these few steps may all overflow, and a step that is discarded
        # makes none of the state that the optimizer will hold.
        trainer.scaler = torch.amp.GradScaler(device.type, init_scale=1.0)
    try:
        held = [trainer.place(batch) for _ in range(STEPS)]
        for placed in held:
            trainer.step(placed)
        drain(device)
        fits = True
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        fits = False
    held = []
    trainer.optimizer.zero_grad(set_to_none=True)
    trainer.rewind(seed)
    del trainer
    gc.collect()  # a traceback holds the tensors of the step that failed
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return fits
