"""JPEG files decoded on the GPU, where torchvision was built with NVIDIA's decoder.

A loader process reads a file's bytes and chooses its crop, and decodes nothing. On the device the
batch is decoded, and each crop is scaled by averaging what falls into a pixel, as Pillow's filter
does. Which crop is taken of which file is the same as with any other decoder.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import Dataset, default_collate

from benchmarks.catalog.catalog import Refused
from benchmarks.data import UnusableData
from benchmarks.data.images import Files, Images, readable, sample_rng
from benchmarks.workload import Batch

ENCODED_DIMENSIONS = 2
"""Of a batch's bytes, [B, longest]; images have four."""


class Encoded(Dataset[Batch]):
    """Yields (bytes, plan) or (bytes, plan, label): uint8 [n], float32 [5], int64 [].

    A plan is left, top, right, bottom in pixels, and 1 if the image is flipped.
    """

    def __init__(self, images: Images) -> None:
        self._images = images
        self._files = Files(images.folder)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Batch:
        """Read one sample.

        Raises:
            UnusableData: the file is gone or is no JPEG.
        """
        images = self._images
        file = index % len(images.folder.files)
        path = self._files.path(file)
        with readable(path):
            encoded = path.read_bytes()
            with Image.open(io.BytesIO(encoded)) as image:
                kind, (width, height) = image.format, image.size
        if kind != "JPEG":
            raise UnusableData(f"The image {path} is no JPEG; read this folder with decode=cpu.")
        rng = sample_rng(images.seed, index)
        box = images.view.crop(width, height, rng)
        plan = torch.tensor([*box, float(rng.random() < 0.5)])
        packed = torch.from_numpy(np.frombuffer(bytearray(encoded), dtype=np.uint8))
        label = (torch.tensor(images.folder.labels[file]),) if images.labelled else ()
        return (packed, plan, *label)

    @staticmethod
    def collate(samples: Sequence[Batch]) -> Batch:
        """Stack: bytes [B, longest] filled up with zeros, lengths int64 [B], and the rest."""
        lengths = torch.tensor([len(encoded) for encoded, *_ in samples])
        longest = int(lengths.max())
        filled = torch.stack([pad(encoded, (0, longest - len(encoded))) for encoded, *_ in samples])
        rest: list[Tensor] = default_collate([tuple(others) for _, *others in samples])
        return (filled, lengths, *rest)


class DeviceDecoder:
    """Decodes, crops and scales a collated batch on the device, on a stream of its own.

    torchvision's decoder writes on streams that wait for nobody, into memory that torch calls free
    as soon as its last use is queued. On the compute stream that use may still be to come, and the
    pictures would land in the activations of the step before. Here memory is handed to the decoder
    only after everything on this stream is done, which keeps it off the compute stream's memory.

    Raises:
        Refused: torchvision is not there, or cannot decode on this GPU.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._stream: torch.cuda.Stream | None = None
        if find_spec("torchvision") is None:
            raise Refused("decode=gpu needs torchvision, and this worker does not have it.")
        self._io: Any = import_module("torchvision.io")
        self._ops: Any = import_module("torchvision.ops")
        small = io.BytesIO()
        Image.new("RGB", (8, 8)).save(small, "JPEG")
        probe = torch.from_numpy(np.frombuffer(bytearray(small.getvalue()), dtype=np.uint8))
        try:
            self._decoded([probe], torch.device("cuda"))
        except (RuntimeError, TypeError) as error:
            why = (str(error).splitlines() or ["no message"])[0][:200]
            raise Refused(f"decode=gpu cannot run here: torchvision says {why!r}.") from error

    def __call__(self, batch: Batch, device: torch.device) -> Batch:
        """Return (images,) or (images, label): uint8 [B, size, size, 3] and int64 [B].

        A batch that another decoder made is copied as it is.
        """
        if batch[0].dim() != ENCODED_DIMENSIONS:
            return tuple(tensor.to(device, non_blocking=True) for tensor in batch)
        stream = self._decode_stream(device)
        asking = torch.cuda.current_stream(device)
        with torch.cuda.stream(stream):
            stream.synchronize()
            made = self._made(batch, device)
        asking.wait_stream(stream)
        for tensor in made:
            tensor.record_stream(asking)
        return made

    def _decode_stream(self, device: torch.device) -> torch.cuda.Stream:
        if self._stream is None:
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        return self._stream

    def _made(self, batch: Batch, device: torch.device) -> Batch:
        filled, lengths, plans, *labels = batch
        encoded = [row[:n] for row, n in zip(filled, lengths.tolist(), strict=True)]
        planes = self._decoded(encoded, device)
        plan = plans.to(device, non_blocking=True)
        images = scaled(canvas(planes), plan, self._size, self._ops.roi_align)
        return (images, *(label.to(device, non_blocking=True) for label in labels))

    def _decoded(self, encoded: list[Tensor], device: torch.device) -> list[Tensor]:
        mode = self._io.ImageReadMode.RGB
        planes: list[Tensor] = self._io.decode_jpeg(encoded, mode=mode, device=device)
        return planes


def canvas(planes: Sequence[Tensor]) -> Tensor:
    """Images of several sizes in one float32 [B, 3, largest H, largest W], each at the top left."""
    height = max(image.shape[1] for image in planes)
    width = max(image.shape[2] for image in planes)
    whole = planes[0].new_zeros((len(planes), 3, height, width))
    for place, image in zip(whole, planes, strict=True):
        place[:, : image.shape[1], : image.shape[2]] = image
    return whole.float()


def scaled(whole: Tensor, plan: Tensor, size: int, roi_align: Any) -> Tensor:
    """Each image's box as uint8 [B, size, size, 3], flipped where its plan says so."""
    numbers = torch.arange(len(plan), device=plan.device, dtype=plan.dtype)[:, None]
    boxes = torch.cat([numbers, plan[:, :4]], dim=1)  # [B, 5]: which image, and its box
    images: Tensor = roi_align(whole, boxes, size, 1.0, -1, True)  # noqa: FBT003  aligned
    images = torch.where(plan[:, 4].bool()[:, None, None, None], images.flip(3), images)
    return images.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)
