"""Images in class folders, decoded, augmented and normalised one by one as training does it.

A sample is a pure function of the dataset's seed and the index: the number of worker processes
changes how fast samples come, never which. An epoch is at least as long as ImageNet's, with the
files repeated under new crops if there are fewer, so that no timed window meets an epoch's end,
where a loader drains and starts again.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset

from benchmarks.data import UnusableData, display_name
from benchmarks.data.photographs import NAME, Photographs
from benchmarks.workload import Batch, Context

EPOCH = 1_281_167
"""ImageNet's number of training images."""
SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})

_UNREADABLE = (OSError, EOFError, SyntaxError, ValueError, Image.DecompressionBombError)
"""What Pillow raises, by format, on a damaged file."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""
Crop = Callable[[int, int, random.Random], Box]
"""Chooses a part of an image of the given width and height."""


@dataclass(frozen=True)
class View:
    """The steps from a file to a tensor: crop, scale to a square, flip half the time."""

    crop: Crop
    size: int
    """Pixels on a side of the square."""
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    """Per channel, of values from 0 to 1."""
    step: int = 0
    """Pixels that a side is a multiple of, where each crop keeps its scale; 0: none does."""

    def side(self, box: Box, width: int, height: int) -> int:
        """Return the pixels on a side of a crop out of an image of that width and height.

        A crop keeps its scale if a whole image fills the square. No image is enlarged, but for the
        last pixels of a step.
        """
        if not self.step:
            return self.size
        left, top, right, bottom = box
        share = (right - left) * (bottom - top) / (width * height)
        own = min(self.size, math.sqrt(width * height)) * math.sqrt(share)
        return min(self.size, math.ceil(own / self.step) * self.step)


@dataclass(frozen=True)
class Folder:
    """Image files in class folders."""

    root: Path
    files: NDArray[np.bytes_]
    """Paths below ``root``. One buffer, not a list of objects: workers share or copy it cheaply."""
    labels: NDArray[np.int64]
    name: str
    """What the fact ``sw.data`` says."""
    cache: Path
    """Where what is made from these files may be kept."""


Pixels = Callable[[int, View, random.Random], NDArray[np.uint8]]
"""Reads file number so much, cropped and scaled: uint8 [side, side, 3]."""


class Images(Dataset[Batch]):
    """Yields (image,) or (image, label), the label int64 [].

    An image is float32 [3, side, side], normalised; or, with ``raw``, uint8 [side, side, 3], a
    quarter of the bytes; `benchmarks.data.decoded.Normalise` makes the same of it on the device.
    """

    def __init__(self, folder: Folder, view: View, seed: int, *, labelled: bool = True) -> None:
        self.folder = folder
        self.view = view
        self.seed = seed
        self.labelled = labelled
        self.raw = False
        self._pixels: Pixels = Files(folder)
        mean = np.array(view.mean, dtype=np.float32).reshape(3, 1, 1)
        deviation = np.array(view.deviation, dtype=np.float32).reshape(3, 1, 1)
        self._scale = 1 / (255 * deviation)
        self._shift = mean / deviation

    def raw_from(self, folder: Folder, pixels: Pixels) -> Images:
        """The same images as uint8, read by ``pixels`` from ``folder``."""
        images = type(self)(folder, self.view, self.seed, labelled=self.labelled)
        images.raw, images._pixels = True, pixels
        return images

    def __len__(self) -> int:
        count = len(self.folder.files)
        return count * math.ceil(EPOCH / count)

    def __getitem__(self, index: int) -> Batch:
        """Read one sample."""
        file = self._file(index)
        rng = sample_rng(self.seed, index)
        pixels = self._pixels(file, self.view, rng)  # uint8 [side, side, 3]
        if rng.random() < 0.5:
            pixels = pixels[:, ::-1]
        image = torch.from_numpy(self._bytes(pixels) if self.raw else self._planes(pixels))
        return (image, torch.tensor(self.folder.labels[file])) if self.labelled else (image,)

    def _file(self, index: int) -> int:
        return index % len(self.folder.files)

    def _planes(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        planes = np.multiply(pixels.transpose(2, 0, 1), self._scale, order="C")
        planes -= self._shift
        return planes

    def _bytes(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.array(pixels, order="C")


def sample_rng(seed: int, index: int) -> random.Random:
    """Return the generator that chooses a sample's crop, and then its flip."""
    return random.Random(seed << 32 | index)


@dataclass(frozen=True)
class Files:
    """Reads a folder's files with Pillow, each time anew."""

    folder: Folder

    def path(self, file: int) -> Path:
        """Return the path of file number ``file``."""
        return self.folder.root / os.fsdecode(bytes(self.folder.files[file]))

    def __call__(self, file: int, view: View, rng: random.Random) -> NDArray[np.uint8]:
        """Decode, crop and scale: uint8 [side, side, 3]."""
        return _decoded(self.path(file), view, rng)


def random_area(width: int, height: int, rng: random.Random) -> Box:
    """Choose 8 to 100 % of the area at an aspect of 3/4 to 4/3: Inception's training crop.

    As torchvision's RandomResizedCrop: ten tries, then the largest centred part that is allowed.
    """
    narrowest, widest = 3 / 4, 4 / 3
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        aspect = math.exp(rng.uniform(math.log(narrowest), math.log(widest)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.randint(0, width - w), rng.randint(0, height - h)
            return left, top, left + w, top + h
    w = min(width, max(1, round(height * widest)))
    h = min(height, max(1, round(width / narrowest)))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def random_square(width: int, height: int, rng: random.Random) -> Box:
    """Choose a square as large as the short side allows, anywhere along the long side."""
    side = min(width, height)
    left, top = rng.randint(0, width - side), rng.randint(0, height - side)
    return left, top, left + side, top + side


def open_folder(context: Context, builtin: Photographs, classes: int | None = None) -> Folder:
    """Open the user's image folder if there is one, else the built-in photographs.

    Raises:
        UnusableData: no usable images, or more class folders than ``classes``.
    """
    if context.data_root is None:
        return _scan(builtin.made(context.cache), NAME, context.cache)
    folder = _scan(_image_root(context.data_root), None, context.cache)
    folders = int(folder.labels.max()) + 1
    if classes is not None and folders > classes:
        raise UnusableData(
            f"{folder.root} has {folders} class folders and this workload tells {classes} classes "
            "apart; give --data-root a folder with fewer."
        )
    return folder


def _image_root(root: Path) -> Path:
    """Accept a folder that holds ``train/`` as ImageNet's does, as well as the classes' parent."""
    if not root.is_dir():
        state = "is a file" if root.exists() else "does not exist"
        raise UnusableData(
            f"The data root {root} {state}; this workload reads a folder with one sub-folder of "
            "images per class."
        )
    train = root / "train"
    return train if train.is_dir() and any(_folders(train)) else root


def _scan(root: Path, name: str | None, cache: Path) -> Folder:
    files: list[bytes] = []
    labels: list[int] = []
    try:
        for label, group in enumerate(_folders(root)):
            images = sorted(_images(group))
            files += (os.fsencode(path.relative_to(root)) for path in images)
            labels += [label] * len(images)
    except OSError as error:
        raise UnusableData(f"The image folder {root} cannot be read: {error}.") from error
    if not files:
        raise UnusableData(
            f"The image folder {root} has no images in sub-folders; put them in as "
            f"{root}/CLASS/IMAGE.jpg."
        )
    name = name or f"folder:{display_name(root)}:{len(files)}"
    return Folder(root, np.array(files), np.array(labels, dtype=np.int64), name, cache)


def _folders(root: Path) -> Iterator[Path]:
    visible = (path for path in root.iterdir() if not path.name.startswith("."))
    return iter(sorted(path for path in visible if path.is_dir()))


def _images(group: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(group, onerror=_refuse):
        for name in names:
            if Path(name).suffix.lower() in SUFFIXES:
                yield Path(folder, name)


def _refuse(error: OSError) -> None:
    raise error


def _decoded(path: Path, view: View, rng: random.Random) -> NDArray[np.uint8]:
    with readable(path), Image.open(path) as image:
        return np.asarray(_cropped(image, view, rng))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Let whatever goes wrong with reading ``path`` be said in one sentence.

    Raises:
        UnusableData: the block failed as Pillow and the file system do.
    """
    try:
        yield
    except _UNREADABLE as error:
        raise UnusableData(f"The image {path} cannot be read: {error}.") from error


def _cropped(image: Image.Image, view: View, rng: random.Random) -> Image.Image:
    """Crop and scale in one pass.

    The crop is chosen from the header alone, so that where it is at least twice the size that is
    wanted, libjpeg can decode at a half, quarter or eighth (`draft`); what is dropped could not
    have been seen. Files of ImageNet's size at 224 pixels never get there and are decoded whole,
    as torchvision does; only large photographs of the user's own, and the tiny preset, gain.
    """
    width, height = image.size
    left, top, right, bottom = chosen = view.crop(width, height, rng)
    side = view.side(chosen, width, height)
    shrink = min(right - left, bottom - top) / side
    if shrink >= 2:
        image.draft("RGB", (math.ceil(width / shrink), math.ceil(height / shrink)))
    x, y = image.width / width, image.height / height
    box = (left * x, top * y, min(right * x, image.width), min(bottom * y, image.height))
    return image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR, box=box)
