"""Images whose crops keep their scale: a small part of a photograph becomes a small image.

NaViT trains at native resolutions (Dehghani et al. 2023, https://arxiv.org/abs/2307.06304), and
samplers of several scales group images by side (Mehta and Rastegari 2021,
https://arxiv.org/abs/2110.02178). Here the side follows from the share of the area that the crop
takes (`View.side`), so it is known of each sample from its file's header, before any is decoded.
"""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from benchmarks.data import decoded
from benchmarks.data.images import Files, Images, View, readable, sample_rng
from benchmarks.workload import Filling

CROPS = 2**16
"""Samples, or one of each file: their sides are told in a third of a second."""


class NativeImages(Images):
    """Yields what `Images` does, with a side of its own for each image.

    Of a folder with more than `benchmarks.data.decoded.MOST_FILES` it reads the even choice that
    `decode=cache` keeps. What fills up an image is black.
    """

    counted = "samples"

    @classmethod
    def of(cls, images: Images, step: int) -> NativeImages:
        """The same files and crops at sides that are multiples of ``step``."""
        view = replace(images.view, step=step)
        made = cls(images.folder, view, images.seed, labelled=images.labelled)
        made.raw, made._pixels = images.raw, images._pixels
        return made

    def __len__(self) -> int:
        count = len(self._chosen)
        return count * math.ceil(CROPS / count)

    @property
    def most(self) -> int:
        """Side of the largest image."""
        return self.view.size

    @property
    def fill(self) -> tuple[Filling, ...]:
        """Black at the right and at the bottom."""
        black = Filling(torch.from_numpy(-self._shift), dims=(1, 2))
        image = Filling(0, dims=(0, 1)) if self.raw else black
        return (image, Filling(0, dims=())) if self.labelled else (image,)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The side of each sample.

        Raises:
            UnusableData: a file cannot be read.
        """
        files = Files(self.folder)
        with ThreadPoolExecutor() as pool:
            sizes = tuple(pool.map(lambda file: _size(files, file), self._chosen.tolist()))
        return _sides(self.view, self.seed, sizes, len(self))

    def _file(self, index: int) -> int:
        return int(self._chosen[index % len(self._chosen)])

    @cached_property
    def _chosen(self) -> NDArray[np.int64]:
        count = len(self.folder.files)
        return np.arange(0, count, math.ceil(count / decoded.MOST_FILES))


Sizes = tuple[tuple[int, int], ...]


@lru_cache(maxsize=4)  # parity builds one recipe several times
def _sides(view: View, seed: int, sizes: Sizes, count: int) -> NDArray[np.int64]:
    """Return the side of each of ``count`` samples of files of such sizes, read-only."""
    sides = np.empty(count, np.int64)
    for index, size in zip(range(count), itertools.cycle(sizes), strict=False):
        sides[index] = view.side(view.crop(*size, sample_rng(seed, index)), *size)
    sides.setflags(write=False)
    return sides


def _size(files: Files, file: int) -> tuple[int, int]:
    path = files.path(file)
    with readable(path), Image.open(path) as image:
        return image.size
