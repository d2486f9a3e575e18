"""JPEG files in class folders, cut from the real photographs that ship inside scikit-image.

Only the package's image files are read; scikit-image itself is never imported, so it does not
matter whether its own dependencies work. Noise would not do: a JPEG decoder's speed depends on
what is in the picture. At 500x375 pixels, the commonest size in ImageNet, a file holds 37 kB.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

from benchmarks.data import UnusableData
from benchmarks.data.cache import made_once

NAME = "builtin-photos-v1"
"""Raise the version whenever a change here changes the files: it starts new series."""

SOURCES = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "motorcycle_left.png",
    "motorcycle_right.png",
    "retina.jpg",
    "rocket.jpg",
)
"""One class folder each; all are in scikit-image's wheel since 0.25, CC0 or public domain."""
QUALITY = 85
PORTRAITS = 0.2
"""Share of files that stand upright; the rest lie, as most of ImageNet's do."""


@dataclass(frozen=True)
class Photographs:
    """A set of files: how many, and how large."""

    count: int
    width: int
    height: int
    """Pixels; files that stand upright swap the two."""

    @property
    def folder(self) -> str:
        """The folder's name; unlike `NAME` it tells sets of one version apart."""
        return f"{NAME}-{self.width}x{self.height}-{self.count}"

    def made(self, cache: Path) -> Path:
        """Return the class folders' parent, after making the files on first use."""
        what = f"{self.count} photographs of {self.width}x{self.height} pixels"
        return made_once(cache / self.folder, what, self._make)

    def _make(self, folder: Path) -> None:
        originals = [_original(name) for name in SOURCES]
        for name in SOURCES:
            (folder / Path(name).stem).mkdir()
        # Pillow leaves the interpreter's lock while it scales and encodes, so threads are enough.
        with ThreadPoolExecutor() as pool:
            for _ in pool.map(partial(self._write, folder, originals), range(self.count)):
                pass

    def _write(self, folder: Path, originals: Sequence[Image.Image], index: int) -> None:
        """Cut file ``index``, which depends on nothing but its index and this set's values."""
        rng = random.Random(f"{self.folder}/{index}")
        which = index % len(SOURCES)
        size = (self.width, self.height)
        if rng.random() < PORTRAITS:
            size = (self.height, self.width)
        photograph = _cut(originals[which], size, rng)
        name = f"{Path(SOURCES[which]).stem}/{index:06d}.jpg"
        photograph.save(folder / name, "JPEG", quality=QUALITY)


def _cut(original: Image.Image, size: tuple[int, int], rng: random.Random) -> Image.Image:
    """Take a random part with ``size``'s shape, at least 60 % of what fits, scaled to ``size``."""
    share = rng.uniform(0.6, 1.0) * min(original.width / size[0], original.height / size[1])
    width, height = size[0] * share, size[1] * share
    left = rng.uniform(0, original.width - width)
    top = rng.uniform(0, original.height - height)
    box = (left, top, min(left + width, original.width), min(top + height, original.height))
    return original.resize(size, Image.Resampling.LANCZOS, box=box)


def _original(name: str) -> Image.Image:
    path = _package_folder() / "data" / name
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except OSError as error:
        raise UnusableData(
            f"scikit-image's photograph {path} cannot be read ({error}); reinstall scikit-image "
            "0.25 or newer, or give your own images with --data-root."
        ) from error


def _package_folder() -> Path:
    spec = find_spec("skimage")  # of a top-level name, this finds without importing
    if spec is None or not spec.submodule_search_locations:
        raise UnusableData(
            "The built-in photographs come from scikit-image, which is not installed; "
            "run 'pip install scikit-image', or give your own images with --data-root."
        )
    return Path(spec.submodule_search_locations[0])
