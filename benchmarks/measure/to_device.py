"""Brings a batch from the host to the device, in the form that the step needs.

By default on the compute stream: the copy is part of the step's time. `SideStream` copies beside
the computation, with marks from which the loop reads how much of the copy was hidden.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from benchmarks.measure.timestamps import Mark, maker
from benchmarks.workload import Batch, Recipe


class Placement:
    """Copies on the compute stream."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.device = device
        self.transfer: tuple[Mark, Mark] | None = None
        """Start and end of the last copy, where it went beside the computation."""
        self._non_blocking = recipe.non_blocking
        self._layout = recipe.memory_format
        self._receive = recipe.receive
        self._prepare = recipe.prepare

    def __call__(self, batch: Sequence[Tensor]) -> Batch:
        """Return ``batch`` on the device, prepared and laid out; no copy if it is there."""
        return self._arranged(self._copied(batch))

    def _copied(self, batch: Sequence[Tensor]) -> Batch:
        if self._receive is not None and batch[0].device != self.device:
            return self._receive(tuple(batch), self.device)
        return tuple(t.to(self.device, non_blocking=self._non_blocking) for t in batch)

    def _arranged(self, batch: Batch) -> Batch:
        if self._prepare is not None:
            batch = self._prepare(batch)
        layout = self._layout
        return tuple(t.contiguous(memory_format=layout) if t.dim() == 4 else t for t in batch)


class SideStream(Placement):
    """Copies on a stream of its own while the compute stream still works on the step before.

    The loop asks for the next batch as soon as a step is queued and runs up to two steps ahead, so
    the copy is queued while the device is busy; the compute stream waits for its end.
    """

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        super().__init__(recipe, device)
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._mark = maker(device)

    def __call__(self, batch: Sequence[Tensor]) -> Batch:
        """As `Placement` does; the copy's marks are in ``transfer`` afterwards."""
        if all(t.device == self.device for t in batch):
            self.transfer = None
            return self._arranged(tuple(batch))
        start, end = self._mark(), self._mark()
        with torch.cuda.stream(self._stream):
            start.record()
            copied = self._copied(batch)
            end.record()
        computing = torch.cuda.current_stream(self.device)
        computing.wait_stream(self._stream)
        for tensor in copied:
            tensor.record_stream(computing)
        self.transfer = (start, end)
        return self._arranged(copied)


def placement(recipe: Recipe, device: torch.device) -> Placement:
    """Return the object that places batches of ``recipe`` on ``device``."""
    return SideStream(recipe, device) if recipe.prefetch else Placement(recipe, device)
