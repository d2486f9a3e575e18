"""The parts of Markdown that reports use: tables, and text that stays text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table; the cells are escaped already."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def escape(text: str) -> str:
    """Escape what Markdown would read as markup: the text is a stranger's."""
    return _SPECIAL.sub(r"\\\1", text)
