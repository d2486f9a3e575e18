"""Cycles of batches whose samples differ in length, each cycle with the lengths of the one before.

The length of an image is the number of pixels on its side.

Samplers that group by length sort the samples of a few batches and cut them into batches, so that
little has to be filled up. So does this one, and it leaves no length to chance: those of a cycle
are quantiles of the lengths of all samples. Batches in a row that make whole cycles thus have the
same shapes and the same number of items, exactly, wherever they begin. Which sample comes is drawn
among all of that length.

What remains: the few samples of a rare length come again and again, and a length between two of the
quantiles never comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler, default_collate

from benchmarks.catalog.catalog import Refused
from benchmarks.workload import Batch, Filling, RealLengths, Recipe

BUCKETS = 4
"""Lengths that `dynamic=bucketed` pads to, at most: torch compiles a function eight times."""
ORDER = 8
"""Seed of the order of the batches in a cycle, which is as mixed as that of any shuffle."""


def lengths(recipe: Recipe) -> NDArray[np.int64]:
    """The lengths of the samples of a cycle, [batches, samples of a batch], in their order."""
    known = np.sort(_of_all(recipe))
    slots = recipe.cycle * recipe.batch
    middles = (2 * np.arange(slots) + 1) * len(known) // (2 * slots)
    order = np.random.default_rng(ORDER).permutation(recipe.cycle)
    planned: NDArray[np.int64] = known[middles].reshape(recipe.cycle, recipe.batch)[order]
    return planned


def items_per_step(recipe: Recipe) -> float:
    """Return the mean number of items of a step over a cycle, without padding; those of all
    ranks."""
    if recipe.cycle == 1 or _counted(recipe) == "samples":
        return recipe.batch * recipe.items_per_sample * recipe.replicas
    return int(lengths(recipe).sum()) / recipe.cycle


def padding(recipe: Recipe) -> float | None:
    """Return the share of the elements of a cycle's batches that only fill up; None of one
    length."""
    if recipe.cycle == 1:
        return None
    of_cycle, dims = lengths(recipe), _dims(recipe)
    to = pad(recipe).to
    padded = [next((n for n in to if n >= own), own) for own in of_cycle.max(axis=1).tolist()]
    whole = recipe.batch * sum(n**dims for n in padded)
    return float(1 - (of_cycle**dims).sum() / whole)


def several_shapes(batches: Iterable[Batch]) -> bool:
    """Return True if the batches are not all of one shape."""
    return len({tuple(part.shape for part in batch) for batch in batches}) > 1


class Order(Sampler[int]):
    """Indices of samples, cycle after cycle without end; the same seed gives the same order."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self._of_all = _of_all(recipe)
        self._planned = lengths(recipe).ravel()
        self._seed = seed

    def __iter__(self) -> Iterator[int]:
        """Draw each sample among those that have its length."""
        by_length = np.argsort(self._of_all, kind="stable")
        sorted_lengths = self._of_all[by_length]
        first = np.searchsorted(sorted_lengths, self._planned, "left")
        after = np.searchsorted(sorted_lengths, self._planned, "right")
        random = np.random.default_rng(self._seed)
        while True:
            yield from by_length[random.integers(first, after)].tolist()


@dataclass(frozen=True)
class Pad:
    """Makes a batch of samples of different lengths: each is filled up at its end."""

    fill: tuple[float | Filling, ...]
    """Fills up each of a sample's tensors."""
    to: tuple[int, ...] = ()
    """Lengths of batches, ascending; where there is none, the longest sample's own."""
    items: frozenset[int] = frozenset()
    """Sums of lengths that a batch may have; any, if there are none."""
    counted: str = "lengths"
    """Counted by throughput: ``lengths`` or ``samples``, as in `RealLengths`."""

    def __call__(self, samples: Sequence[Sequence[Tensor]]) -> Batch:
        """Fill up to the least length of ``to`` that is enough.

        Raises:
            Refused: the samples are not as long as their data set says.
        """
        fill = [one if isinstance(one, Filling) else Filling(one) for one in self.fill]
        given = [max(sample[0].shape[dim] for dim in fill[0].dims) for sample in samples]
        if self.items and sum(given) not in self.items:
            raise Refused(self._told(sum(given)))
        length = next((to for to in self.to if to >= max(given)), max(given))
        filled = [
            tuple(_filled(*part, length) for part in zip(sample, fill, strict=True))
            for sample in samples
        ]
        return tuple(default_collate(filled))  # into the memory that processes share

    def _told(self, given: int) -> str:
        planned = " or ".join(map(str, sorted(self.items)))
        if self.counted == "samples":
            return (
                f"The samples of a batch are {given} long together, and by the `lengths` of their "
                f"data set {planned}: the work of a cycle rests on these, so each sample must be "
                "as long as they say."
            )
        return (
            f"A batch has {given} items, and by the `lengths` of its data set it has {planned}: "
            "throughput counts these, so each sample must be as long as they say."
        )


def pad(recipe: Recipe, *, planned: bool = True) -> Pad:
    """Return the function that makes the batches of ``recipe``.

    It checks the number of items of batches that are ``planned``, as the loader's are.
    """
    data, of_cycle = _data(recipe), lengths(recipe)
    longest = of_cycle.max(axis=1).tolist()
    by_way = {"off": (data.most,), "bucketed": buckets(longest, _dims(recipe))}
    to = by_way.get(recipe.dynamic, ())
    items = frozenset(of_cycle.sum(axis=1).tolist()) if planned else frozenset[int]()
    return Pad(tuple(data.fill), to, items, _counted(recipe))


def buckets(longest: Sequence[int], dims: int = 1) -> tuple[int, ...]:
    """At most `BUCKETS` of the batches' lengths, so chosen that filling up to them adds least.

    Samples are filled up in ``dims`` dimensions.
    """
    kinds = sorted(set(longest))
    if len(kinds) <= BUCKETS:
        return tuple(kinds)
    chosen = ((*some, kinds[-1]) for some in combinations(kinds[:-1], BUCKETS - 1))
    return min(
        chosen, key=lambda to: sum(min(t for t in to if t >= own) ** dims for own in longest)
    )


def _filled(sample: Tensor, filling: Filling, length: int) -> Tensor:
    shape = [length if dim in filling.dims else n for dim, n in enumerate(sample.shape)]
    if shape == list(sample.shape):
        return sample
    whole = sample.new_empty(shape)
    whole[:] = filling.value
    whole[tuple(slice(n) for n in sample.shape)] = sample
    return whole


def _data(recipe: Recipe) -> RealLengths:
    return cast(RealLengths, recipe.dataset)


def _dims(recipe: Recipe) -> int:
    """Return the number of dimensions in which samples are filled up."""
    fill = _data(recipe).fill
    return max(len(one.dims) if isinstance(one, Filling) else 1 for one in fill)


def _counted(recipe: Recipe) -> str:
    return getattr(recipe.dataset, "counted", "lengths")


def _of_all(recipe: Recipe) -> NDArray[np.int64]:
    return np.asarray(_data(recipe).lengths, dtype=np.int64)
