"""Input pipelines: real files, made once on disk without a download, read by real loaders."""

from pathlib import Path


class UnusableData(ValueError):
    """Input files that cannot be used; the message is one sentence that says what to do."""


def display_name(path: Path) -> str:
    """Return the last part of ``path``, short and without what a line of text cannot hold."""
    name = path.resolve().name
    return "".join(char if char.isprintable() else "?" for char in name)[:200]
