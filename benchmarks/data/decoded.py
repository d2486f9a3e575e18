"""Images decoded once into one memory-mapped file of uint8 pixels.

A sample then needs only its random crop, scaled and flipped, without a JPEG decoder: the same crops
as with decoding each time, several times faster. An image is kept at up to twice the size that the
model sees (short side); larger ones are scaled down, as usual when training sets are prepared. Of a
folder with more than `MOST_FILES` an even choice is kept, so that it fits the page cache; the speed
of reading does not depend on it.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from benchmarks.data.cache import made_once
from benchmarks.data.images import Files, Folder, View, readable
from benchmarks.workload import Batch

VERSION = "decoded-v1"
"""Raise it whenever a change here changes the files."""
MOST_FILES = 20_000
PIXELS = "pixels.bin"
INDEX = "index.npy"
ENLARGED = 2
"""A kept image's short side, at most, in sizes that the model sees."""
CHUNK = 256
"""Images that wait in memory to be written while the cache is made."""


class Decoded:
    """Reads crops out of the file of pixels of ``folder``, which is made on first use.

    Raises:
        UnusableData: an image cannot be decoded, or the cache cannot be written.
    """

    def __init__(self, folder: Folder, view: View) -> None:
        self.folder = few(folder)
        self._root = _made(self.folder, ENLARGED * view.size)
        self._index: NDArray[np.int64] = np.load(self._root / INDEX)
        self._mapped: NDArray[np.uint8] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave the map out: pickled for another process, it would be the whole file."""
        return self.__dict__ | {"_mapped": None}

    def __call__(self, file: int, view: View, rng: random.Random) -> NDArray[np.uint8]:
        """Crop and scale: uint8 [side, side, 3]."""
        start, height, width, true_height, true_width = map(int, self._index[file])
        left, top, right, bottom = chosen = view.crop(true_width, true_height, rng)
        x, y = width / true_width, height / true_height
        box = (left * x, top * y, min(right * x, width), min(bottom * y, height))
        image = self._pixels()[start : start + height * width * 3].reshape(height, width, 3)
        return _scaled(image, box, view.side(chosen, true_width, true_height))

    def _pixels(self) -> NDArray[np.uint8]:
        if self._mapped is None:
            # Copy-on-write: torch warns of memory that cannot be written.
            self._mapped = np.memmap(self._root / PIXELS, dtype=np.uint8, mode="c")
        return self._mapped


def few(folder: Folder) -> Folder:
    """``folder`` with at most `MOST_FILES` files, evenly chosen; it keeps its name."""
    step = math.ceil(len(folder.files) / MOST_FILES)
    return replace(folder, files=folder.files[::step], labels=folder.labels[::step])


def _scaled(
    image: NDArray[np.uint8], box: tuple[float, float, float, float], side: int
) -> NDArray[np.uint8]:
    """Part of ``image``, to the next whole pixel, as uint8 [side, side, 3].

    torch's filter for bytes is Pillow's, in a quarter of the time; from the crop alone, as
    torchvision does it, where Pillow also looks at the pixels just outside.
    """
    left, top, right, bottom = map(round, box)
    part = image[top : max(bottom, top + 1), left : max(right, left + 1)]
    planes = torch.from_numpy(part).permute(2, 0, 1)[None]  # [1, 3, h, w], channels last
    resized = interpolate(planes, (side, side), mode="bilinear", antialias=True)
    pixels: NDArray[np.uint8] = resized[0].permute(1, 2, 0).numpy()
    return pixels


def _made(folder: Folder, short_side: int) -> Path:
    """The cache folder of these very files at that size."""
    digest = hashlib.sha256(f"{VERSION} {short_side} {folder.root.resolve()}".encode())
    files = Files(folder)
    for number, name in enumerate(folder.files):
        with readable(files.path(number)):
            status = files.path(number).stat()
        digest.update(b"%b %d %d\0" % (bytes(name), status.st_size, status.st_mtime_ns))
    what = f"{len(folder.files)} decoded images"
    make = partial(_make, files, short_side)
    return made_once(folder.cache / f"{VERSION}-{digest.hexdigest()[:16]}", what, make)


def _make(files: Files, short_side: int, to: Path) -> None:
    rows, start = [], 0
    with (to / PIXELS).open("wb") as out:
        for pixels, (true_width, true_height) in _all_decoded(files, short_side):
            height, width, _ = pixels.shape
            rows.append((start, height, width, true_height, true_width))
            start += out.write(pixels.tobytes())
    np.save(to / INDEX, np.array(rows, dtype=np.int64))


def _all_decoded(
    files: Files, short_side: int
) -> Iterator[tuple[NDArray[np.uint8], tuple[int, int]]]:
    """Every file's pixels with its true width and height, in order, a chunk at a time."""
    numbers = iter(range(len(files.folder.files)))
    # Pillow leaves the interpreter's lock while it decodes and scales, so threads are enough.
    with ThreadPoolExecutor() as pool:
        while chunk := list(itertools.islice(numbers, CHUNK)):
            yield from pool.map(lambda number: _whole(files.path(number), short_side), chunk)


def _whole(path: Path, short_side: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    with readable(path), Image.open(path) as image:
        size = image.size
        shrink = max(1.0, min(size) / short_side)
        smaller = (max(1, round(size[0] / shrink)), max(1, round(size[1] / shrink)))
        image.draft("RGB", smaller)
        whole = image.convert("RGB")
        if whole.size != smaller:
            whole = whole.resize(smaller, Image.Resampling.BILINEAR)
        return np.asarray(whole), size


class Normalise:
    """Turns uint8 [B, S, S, 3] into float32 [B, 3, S, S], channels last in memory.

    Other tensors of a batch, and images that are normalised already, stay unchanged.
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
