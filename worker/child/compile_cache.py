"""Compiled code that outlives a replicate of a case, so that the others find warm caches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contracts import Id, Lease
from worker.child.workspace import remove

KEPT_S = 2 * 86_400.0
"""A case whose next replicate never came leaves its caches for so long."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One replicate of a case, whose others come before and after it."""

    group: Id
    measured: int
    """Replicates before it."""
    replicates: int

    @classmethod
    def of(cls, lease: Lease) -> Turn:
        """Return the replicate that the lease hands out."""
        return cls(lease.group, lease.spec.replicate - 1, lease.spec.protocol.replicates)


class Caches:
    """A folder with one folder a case."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def of(self, turn: Turn | None) -> Iterator[Path | None]:
        """The caches of a case with several replicates; they go with the last. Else None.

        Raises:
            OSError: the folder cannot be made.
        """
        if turn is None or turn.replicates == 1:
            yield None
            return
        self._clear()
        own = self._folder / turn.group
        if turn.measured == 0:  # what is there is of an attempt that was lost: begin cold
            remove(self._folder, turn.group)
        own.mkdir(parents=True, exist_ok=True)
        yield own.absolute()
        if turn.measured + 1 >= turn.replicates:
            remove(self._folder, turn.group)

    def _clear(self) -> None:
        with suppress(OSError):
            for old in self._folder.iterdir():
                if time.time() - old.stat().st_mtime > KEPT_S:
                    remove(self._folder, old.name)
