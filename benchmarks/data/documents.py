"""Documents of a token file, each a sample as long as it is.

Of the user's file a document is whatever stands between two end-of-text tokens of GPT-2, as
nanoGPT's prepare.py writes them. Of the built-in text it is what two blank lines divide from the
rest: a top-level function or class of Python's library, or the head of a file. At GPT-2's 1,024
tokens half of these are longer than 200, and one in seven is cut.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import UnusableData
from benchmarks.data.cache import made_once
from benchmarks.data.tokens import (
    FILE,
    TokenData,
    TokenFile,
    Tokenizer,
    library_sources,
    open_tokens,
)
from benchmarks.workload import Batch, Context

NAME = "builtin-documents-v1"
"""Raise the version whenever a change here changes the files: it starts new series."""
END = 65_535
"""Ends a document of the built-in text: no vocabulary reaches so far."""
IGNORED = -100
"""Target that `cross_entropy` ignores by default."""
LOOKED_AT = 2**26
"""Tokens of a file in which documents are looked for: 128 MiB, read in a tenth of a second."""
_BETWEEN = re.compile(rb"\n{3,}(?=\S)")


class Documents(TokenData):
    """Yields (x, y), int64 [T] each, with the T of the document: y is x one token later.

    A document of more than ``most`` + 1 tokens is cut there.
    """

    fill = (0, IGNORED)

    def __init__(self, file: TokenFile, most: int) -> None:
        super().__init__(file)
        self.most = most
        ends = np.flatnonzero(self._tokens()[:LOOKED_AT] == file.end)
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        pairs = ends - starts - 1  # a token, and the one that comes after it
        if not (pairs > 0).any():
            raise UnusableData(
                f"The token file {file.path} has no end-of-text token ({file.end}) after a text in "
                f"its first {LOOKED_AT:,} tokens, so where its documents end is not known: write "
                "one after each, as nanoGPT's prepare.py does."
            )
        self._starts = starts[pairs > 0]
        self.lengths: NDArray[np.int64] = np.minimum(pairs[pairs > 0], most)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Batch:
        """Read one document."""
        return self._pair(self._starts[index], self.lengths[index])


def open_documents(context: Context, vocabulary: int, text: int) -> TokenFile:
    """Open the user's token file if there is one, else the definitions of the built-in text.

    ``text`` is how many bytes of source the built-in file is made from at most.
    """
    if context.data_root is not None:
        return open_tokens(context, vocabulary, text)
    folder = f"{NAME}-{vocabulary}-{text}-py{platform.python_version()}"
    what = f"a file of documents with a vocabulary of {vocabulary}"
    made = made_once(context.cache / folder, what, lambda to: _make(to, vocabulary, text))
    return TokenFile(made / FILE, vocabulary, NAME, END)


def _make(folder: Path, vocabulary: int, text: int) -> None:
    sources = library_sources(text)
    tokenizer = Tokenizer.learn(sources, vocabulary)
    found = (part for source in sources for part in _BETWEEN.split(source) if part.strip())
    with (folder / FILE).open("wb") as file:
        for document in tokenizer.encode_each(found):
            np.array([*document, END], dtype=np.uint16).tofile(file)
