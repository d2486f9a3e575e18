"""Checks the recipe, batches and loss of a workload against their contract.

Throughput counts `Recipe.batch` samples a step. A user's own loader may give a batch of another
size, and the rate would be wrong. Other mistakes would end in an error deep inside some library.
"""

from __future__ import annotations

from torch import Tensor
from torch.utils.data import IterableDataset

from benchmarks.catalog.catalog import Refused
from benchmarks.workload import Batch, Recipe

_OURS = frozenset(
    {"batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "collate_fn", "generator"}
)
"""Arguments of the loader that the measurement decides on."""


def recipe(made: object, workload: str) -> Recipe:
    """``made``, if it is a recipe that can be measured.

    Raises:
        Refused: it is something else; the sentence says what is wanted.
    """
    if not isinstance(made, Recipe):
        raise Refused(
            f"{workload} returned {type(made).__name__}, and a Recipe of "
            "benchmarks.workload is needed."
        )
    for name in ("batch", "items_per_sample"):
        count = getattr(made, name)
        if not isinstance(count, int) or count < 1:
            raise Refused(
                f"{name} of the recipe is {count!r}, and a whole number from 1 is needed."
            )
    if taken := sorted(_OURS & made.loader_options.keys()):
        raise Refused(
            f"loader_options of the recipe has {', '.join(taken)}, which is decided here: the "
            "recipe's batch, an order fixed by the seed, and a method collate of the data set."
        )
    if isinstance(made.dataset, IterableDataset) or not hasattr(made.dataset, "__len__"):
        raise Refused(
            f"The data set, of class {type(made.dataset).__name__}, gives its samples one after "
            "another: one with a length that gives them by number is needed, so that a seed can "
            "fix their order."
        )
    return made


def tensors(made: object) -> Batch:
    """``made``, if it is a tuple (or list) of tensors that share their first dimension.

    Raises:
        Refused: it is something else.
    """
    if not isinstance(made, tuple | list):
        raise Refused(
            f"The loader gave one {type(made).__name__} as a batch, and a tuple of tensors is "
            "needed: let the data set give a tuple for each sample, (x,) or (x, y)."
        )
    for part in made:
        if not isinstance(part, Tensor):
            raise Refused(
                f"The loader gave a batch with a {type(part).__name__} in it, and a tuple of "
                "tensors is needed: let the data set give a tuple of tensors or numbers for each "
                "sample."
            )
    batch: Batch = tuple(made)
    if not batch or any(part.dim() == 0 or len(part) != len(batch[0]) for part in batch):
        shapes = ", ".join(str(tuple(part.shape)) for part in batch) or "none"
        raise Refused(
            f"The tensors of a batch must share their first dimension, and theirs are: {shapes}."
        )
    return batch


def batch(made: object, expected: int) -> Batch:
    """``made``, if it is a batch of so many samples.

    Raises:
        Refused: it is something else, or of another size.
    """
    whole = tensors(made)
    if len(whole[0]) != expected:
        raise Refused(
            f"The loader gave a batch of {len(whole[0])} where the recipe's batch is {expected}: "
            f"throughput counts {expected} samples in each step, so each batch must have them."
        )
    return whole


def loss(made: object) -> Tensor:
    """``made``, if it is a single number to differentiate.

    Raises:
        Refused: it is something else.
    """
    if isinstance(made, Tensor) and made.numel() == 1:
        return made
    what = (
        f"tensor of shape {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
    )
    raise Refused(f"The loss of the recipe is a {what}, and a tensor with one number is needed.")
