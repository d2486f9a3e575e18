"""Pixels to what a model takes, on the device: a quarter of the bytes cross the bus."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from benchmarks.data.images import View
from benchmarks.workload import Batch


class Normalise:
    """Turns uint8 [B, S, S, 3] into float32 [B, 3, S, S], channels last in memory.

    Whatever else is in a batch, and images that have been through it, stay as they are.
    """

    def __init__(self, view: View) -> None:
        deviation = torch.tensor(view.deviation).view(1, 3, 1, 1)
        mean = torch.tensor(view.mean).view(1, 3, 1, 1)
        self._scale = 1 / (255 * deviation)
        self._offset = -mean / deviation

    def __call__(self, batch: Sequence[Tensor]) -> Batch:
        """Normalise the images of ``batch`` where they are."""
        return tuple(self._floats(t) if t.dtype == torch.uint8 else t for t in batch)

    def _floats(self, pixels: Tensor) -> Tensor:
        if self._scale.device != pixels.device:  # once: on the first batch
            self._scale, self._offset = (t.to(pixels.device) for t in (self._scale, self._offset))
        # One kernel that reads bytes and writes floats.
        return torch.addcmul(self._offset, pixels.permute(0, 3, 1, 2), self._scale)
