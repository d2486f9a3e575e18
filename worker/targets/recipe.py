"""How the folder of a revision is made: what a commit and versions of packages have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from worker.targets.definitions import Bounded

VENV = ".venv"
"""A link in a folder to the environment that runs it."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One revision that can be made."""

    revision: str
    """As messages name it."""
    folder: Path
    """It is there once it is whole."""
    definition: Bounded
    """Of its target, which decides whether it can be made."""
    log: Path
    write: Callable[[Recipe, Path], None]
    """Writes the files, and a link to the environment, into a folder; raises `BuildFailed`."""
