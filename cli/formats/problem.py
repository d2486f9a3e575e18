"""The one error of reading and writing formats."""

from __future__ import annotations

from pathlib import Path


class FormatError(Exception):
    """A file cannot be read or written; the sentence names it and the place inside."""

    def __init__(self, sentence: str, path: Path | None = None, place: str = "") -> None:
        parts = [str(path)] if path else []
        self.sentence = ": ".join([*parts, *([place] if place else []), sentence])
        super().__init__(self.sentence)
