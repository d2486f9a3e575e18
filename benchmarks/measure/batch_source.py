"""The sources of batches: the real loader (FULL) or a ring on the device (SYNTH)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from benchmarks.data import UnusableData
from benchmarks.measure import check_recipe, cycles
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

RING = 4
"""Batches kept on the device for SYNTH: more than one, so that no step reuses its own cache."""
PREFETCH = 2
"""Batches that each loader process prepares ahead unless the axis says otherwise: PyTorch's
default, named so that it stays."""


class EndlessShuffle(Sampler[int]):
    """Shuffled epochs without end, so that no epoch's start falls into a timed pass."""

    def __init__(self, size: int, seed: int, rank: int = 0, world: int = 1) -> None:
        """Shuffle ``size`` indices; of ``world`` ranks each takes every ``world``-th one."""
        self._size = size
        self._seed = seed
        self._share = slice(rank, None, world)

    def __iter__(self) -> Iterator[int]:
        """Indices of one shuffled epoch after another; the same seed gives the same order."""
        share = self._share
        return itertools.islice(self._all(), share.start, None, share.step)

    def _all(self) -> Iterator[int]:
        order = torch.Generator().manual_seed(self._seed)
        while True:
            yield from torch.randperm(self._size, generator=order).tolist()


def loader(recipe: Recipe, seed: int, rank: int = 0) -> DataLoader[Batch]:
    """The real `DataLoader` of ``recipe``: whole batches only, in an order fixed by ``seed``; of a
    gang those of one rank.

    Raises:
        UnusableData: the data set is empty.
    """
    size = len(cast(Sized, recipe.dataset))
    if size == 0:
        raise UnusableData(
            "The data set is empty: it, or the --data-root that it reads, needs a sample at least."
        )
    options = dict(recipe.loader_options)
    if options.get("num_workers", 0) > 0:
        options.setdefault("prefetch_factor", PREFETCH)
    return DataLoader(
        recipe.dataset,
        batch_size=recipe.batch,
        sampler=EndlessShuffle(size, seed, rank % recipe.replicas, recipe.replicas)
        if recipe.cycle == 1
        else cycles.Order(recipe, seed),
        drop_last=True,
        collate_fn=collate(recipe),
        generator=torch.Generator().manual_seed(seed),
        **options,
    )


def batches(recipe: Recipe, seed: int, rank: int = 0) -> Iterator[Batch]:
    """Yield the batches of `loader` without end, each checked."""
    for made in loader(recipe, seed, rank):
        yield check_recipe.batch(made, recipe.batch)


def first(recipe: Recipe, count: int) -> Batch:
    """The first ``count`` samples, or all of fewer, as the loader collates them, read in this
    process. Samples of different lengths are as long as any batch may be.
    """
    few: DataLoader[Batch] = DataLoader(
        recipe.dataset,
        batch_size=count,
        collate_fn=collate(replace(recipe, dynamic="off"), planned=False),
    )
    return check_recipe.tensors(next(iter(few)))


def collate(recipe: Recipe, *, planned: bool = True) -> Callable[[Any], Any] | None:
    """Return the function that makes a batch of samples; None: torch's own.

    It checks the lengths of batches that are ``planned``, as the loader's are.
    """
    own: Callable[[Any], Any] | None = getattr(recipe.dataset, "collate", None)
    return own if own or recipe.cycle == 1 else cycles.pad(recipe, planned=planned)


def queue_batches(recipe: Recipe) -> int:
    """Batches that can lie ready in the loader's queue; 0 without loader processes."""
    workers = int(recipe.loader_options.get("num_workers", 0))
    per_worker = int(recipe.loader_options.get("prefetch_factor", PREFETCH))
    return workers * per_worker + 2 if workers else 0


def empty_queue(recipe: Recipe, batches: Iterator[Sequence[Tensor]]) -> None:
    """Throw away the batches that the loader has prepared.

    A pause (compiling, rewinding) fills the queue, and a pass that starts with a full queue runs
    faster than the loader can sustain. A loader that keeps up fills an empty queue again; a slower
    one shows its own rate from the start.
    """
    for _ in range(queue_batches(recipe)):
        next(batches)


def ring_size(recipe: Recipe) -> int:
    """`RING`, or the least number above it that makes whole cycles."""
    return math.ceil(RING / recipe.cycle) * recipe.cycle


def ring(trainer: Trainer, feed: Iterator[Sequence[Tensor]]) -> list[Batch]:
    """Real batches from ``feed``, placed on the device to be used in turn.

    Fewer than `ring_size` where no more fit beside the model: FULL has shown that one does. Of a
    cycle all must fit, or the rate would not be that of a cycle.
    """
    placed: list[Batch] = []
    for _ in range(ring_size(trainer.recipe)):
        try:
            placed.append(trainer.place(next(feed)))
        except torch.OutOfMemoryError:
            if not placed or trainer.recipe.cycle > 1:
                raise
            break
    return placed
