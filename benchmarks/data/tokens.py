"""Token files: uint16 values, memory-mapped, read in windows at random offsets.

The built-in text is the source code of Python's own library, cut by a small tokenizer of ours:
real text with real frequencies, there without a download. It differs a little between Python's
patch releases, so each release has its own file in the cache, but all bear one `NAME`: shapes,
window length and vocabulary are the same, and a language model's speed does not depend on which
words it reads. With the release in the name, every upgrade of Python would begin a new history
and hide the very change that it made.
"""

from __future__ import annotations

import os
import platform
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from benchmarks.data import UnusableData, display_name
from benchmarks.data.cache import made_once
from benchmarks.workload import Batch, Context

NAME = "builtin-tokens-v1"
"""Raise the version whenever a change here changes the files: it starts new series."""
FILE = "train.bin"
"""nanoGPT's own name for such a file."""
EPOCH = 2**20
"""Windows in an epoch; so many that no timed window meets an epoch's end."""
END_OF_TEXT = 50_256
"""GPT-2's own."""
LEAST_TEXT = 500_000
"""Bytes of source below which Python's library is taken to be missing."""

_PIECE = re.compile(rb" ?[A-Za-z_]+| ?[0-9]+| ?[^\sA-Za-z_0-9]+|\s+(?!\S)|\s")
_LEFT_OUT = frozenset({"__pycache__", "dist-packages", "site-packages", "test", "tests"}) | {
    "ensurepip",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtledemo",
}
"""Folders that some distributions of Python leave out, or that hold other people's code."""


@dataclass(frozen=True)
class Tokenizer:
    """Words, numbers, punctuation and spaces by frequency; single bytes for whatever is rare.

    Tokens 0 to 255 are the bytes, so that every text can be written and read back exactly; the
    others are the most frequent pieces of two bytes or more, the commonest first.
    """

    pieces: tuple[bytes, ...]

    @classmethod
    def learn(cls, texts: Iterable[bytes], vocabulary: int) -> Tokenizer:
        """Choose at most ``vocabulary`` tokens, 257 or more; equal counts go by the alphabet."""
        counts: Counter[bytes] = Counter()
        for text in texts:
            counts.update(_PIECE.findall(text))
        longer = (piece for piece in counts if len(piece) > 1)
        ranked = sorted(longer, key=lambda piece: (-counts[piece], piece))
        return cls((*(bytes([value]) for value in range(256)), *ranked[: vocabulary - 256]))

    def encode(self, texts: Iterable[bytes]) -> NDArray[np.uint16]:
        """Return the tokens of all ``texts``, one after another."""
        return np.fromiter(chain.from_iterable(self.encode_each(texts)), dtype=np.uint16)

    def encode_each(self, texts: Iterable[bytes]) -> Iterator[list[int]]:
        """Yield the tokens of each of ``texts``."""
        numbers = {piece: [number] for number, piece in enumerate(self.pieces)}
        for text in texts:
            tokens: list[int] = []
            for piece in _PIECE.findall(text):
                tokens += numbers.get(piece) or piece  # bytes iterate as their values
            yield tokens

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Return the text that ``tokens`` stand for."""
        return b"".join(self.pieces[token] for token in tokens)


@dataclass(frozen=True)
class TokenFile:
    """A file of uint16 tokens, all of them below ``vocabulary``."""

    path: Path
    vocabulary: int
    name: str
    """What the fact ``sw.data`` says."""
    end: int = END_OF_TEXT
    """Token that ends a document."""


class TokenData(Dataset[Batch]):
    """Samples of a token file, which is mapped into memory when it is first read."""

    def __init__(self, file: TokenFile) -> None:
        self.file = file
        self._mapped: NDArray[np.uint16] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave the map out: pickled for another process, it would be the whole file."""
        return self.__dict__ | {"_mapped": None}

    def _tokens(self) -> NDArray[np.uint16]:
        if self._mapped is None:
            self._mapped = np.memmap(self.file.path, dtype=np.uint16, mode="r")
        return self._mapped

    def _pair(self, start: int, length: int) -> Batch:
        """Read (x, y), int64 [length] each: the tokens from ``start`` on, and one token later."""
        window = self._tokens()[start : start + length + 1].astype(np.int64)
        _check_vocabulary(window, self.file)
        text = torch.from_numpy(window)
        return text[:-1], text[1:]


class Windows(TokenData):
    """Yields (x, y), int64 [length] each: a window, and the same window one token later.

    Which window is a pure function of the seed and the index, whatever the number of workers.
    """

    def __init__(self, file: TokenFile, length: int, seed: int) -> None:
        super().__init__(file)
        self.length = length
        self.seed = seed
        _check(self._tokens(), file, length)

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> Batch:
        """Read one window."""
        starts = len(self._tokens()) - self.length
        at = random.Random(self.seed << 32 | index).randrange(starts)
        return self._pair(at, self.length)


def open_tokens(context: Context, vocabulary: int, text: int) -> TokenFile:
    """Open the user's token file if there is one, else the built-in text.

    ``text`` is how many bytes of source the built-in file is made from at most.
    """
    if context.data_root is not None:
        return _users_file(context.data_root, vocabulary)
    folder = f"{NAME}-{vocabulary}-{text}-py{platform.python_version()}"
    what = f"a token file with a vocabulary of {vocabulary}"
    made = made_once(context.cache / folder, what, lambda to: _make(to, vocabulary, text))
    return TokenFile(made / FILE, vocabulary, NAME)


def _users_file(root: Path, vocabulary: int) -> TokenFile:
    path = root / FILE if root.is_dir() else root
    if not path.is_file():
        raise UnusableData(
            f"The data root {root} has no token file; this workload reads one file of uint16 "
            f"tokens, or a folder that holds it as {FILE}."
        )
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise UnusableData(f"The token file {path} cannot be read: {error.strerror}.") from error
    if size % 2 or not size:
        raise UnusableData(
            f"The token file {path} has {size} bytes, which is no whole number of uint16 tokens; "
            "write it as numpy.uint16, as nanoGPT's prepare.py does."
        )
    return TokenFile(path, vocabulary, f"file:{display_name(path)}:{size // 2}")


def _check(tokens: NDArray[np.uint16], file: TokenFile, length: int) -> None:
    if len(tokens) <= length:
        raise UnusableData(
            f"The token file {file.path} holds {len(tokens)} tokens and one window needs "
            f"{length + 1}; give a longer one."
        )
    _check_vocabulary(tokens[:1_000_000], file)


def _check_vocabulary(tokens: NDArray[np.uint16] | NDArray[np.int64], file: TokenFile) -> None:
    if (largest := int(tokens.max())) >= file.vocabulary:
        raise UnusableData(
            f"The token file {file.path} holds token {largest} and the model's vocabulary ends at "
            f"{file.vocabulary - 1}; give a file that was made for it."
        )


def _make(folder: Path, vocabulary: int, text: int) -> None:
    texts = library_sources(text)
    Tokenizer.learn(texts, vocabulary).encode(texts).tofile(folder / FILE)


def library_sources(limit: int) -> Sequence[bytes]:
    """Read Python's own library, file by file in alphabetical order, up to ``limit`` bytes."""
    library = Path(sysconfig.get_path("stdlib"))
    texts: list[bytes] = []
    for path in _source_files(library):
        texts.append(path.read_bytes()[:limit])
        limit -= len(texts[-1])
        if limit <= 0:
            break
    if sum(map(len, texts)) < LEAST_TEXT:
        raise UnusableData(
            f"Python's library sources are not in {library}, so there is no text to read; install "
            "them, or give your own token file with --data-root."
        )
    return texts


def _source_files(library: Path) -> Iterable[Path]:
    paths: list[str] = []
    for folder, subfolders, names in os.walk(library):
        subfolders[:] = [name for name in subfolders if name not in _LEFT_OUT]
        below = Path(folder).relative_to(library)
        paths += [(below / name).as_posix() for name in names if name.endswith(".py")]
    return (library / name for name in sorted(paths))
