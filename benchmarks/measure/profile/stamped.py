"""Batches that tell which process of the loader made them, and when."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence, Sized
from typing import Any, NamedTuple, cast

from torch.utils.data import Dataset, default_collate, get_worker_info


class Stamp(NamedTuple):
    """The making of one batch; times of the monotonic clock, which all processes share."""

    worker: int
    """Number of the loader process; -1 without one."""
    pid: int
    began_ns: int
    read_ns: int
    """When all samples were there."""
    collated_ns: int


class Stamped(Dataset[Any]):
    """A data set in whose batches a `Stamp` stands beside what ``collate`` makes."""

    def __init__(self, dataset: Dataset[Any], collate: Callable[[Any], Any] | None = None) -> None:
        self.dataset = dataset
        self._collate = collate or default_collate

    def __getattr__(self, name: str) -> Any:
        """Be the data set itself to a `worker_init_fn`."""
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(cast(Sized, self.dataset))

    def __getitems__(self, indices: Sequence[int]) -> tuple[Any, int, int]:
        """Read the samples of one batch, which a loader asks for in one call."""
        began_ns = time.monotonic_ns()
        at_once = getattr(self.dataset, "__getitems__", None)
        samples = at_once(indices) if at_once else [self.dataset[index] for index in indices]
        return samples, began_ns, time.monotonic_ns()

    def collate(self, read: tuple[Any, int, int]) -> tuple[Any, Stamp]:
        """Make the batch of what `__getitems__` has read."""
        samples, began_ns, read_ns = read
        batch = self._collate(samples)
        info = get_worker_info()
        worker = -1 if info is None else info.id
        return batch, Stamp(worker, os.getpid(), began_ns, read_ns, time.monotonic_ns())
