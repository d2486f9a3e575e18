"""Compiled code that outlives a turn of a job, so that its other processes find warm caches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contracts import Id, Lease
from worker.child.workspace import remove

KEPT_S = 2 * 86_400.0
"""A job whose next turn never came leaves its caches for so long."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One process of a job whose processes run in turn with those of others."""

    job_id: Id
    measured: int
    """Processes that earlier turns have measured."""
    replicates: int

    @classmethod
    def of(cls, lease: Lease) -> Turn | None:
        """Return the turn that the lease hands out; None if the lease is of a whole job."""
        if not lease.spec.in_turn:
            return None
        return cls(lease.job_id, lease.measured, lease.spec.protocol.replicates)


class Caches:
    """A folder with one folder a job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def of(self, turn: Turn | None) -> Iterator[Path | None]:
        """The caches of a job that has turns; they go with its last one. None for other jobs.

        Raises:
            OSError: the folder cannot be made.
        """
        if turn is None:
            yield None
            return
        self._clear()
        own = self._folder / turn.job_id
        if turn.measured == 0:  # what is there is of forgotten turns: this one begins cold
            remove(self._folder, turn.job_id)
        own.mkdir(parents=True, exist_ok=True)
        yield own.absolute()
        if turn.measured + 1 >= turn.replicates:
            remove(self._folder, turn.job_id)

    def _clear(self) -> None:
        """Remove what was left for too long."""
        with suppress(OSError):
            for old in self._folder.iterdir():
                if time.time() - old.stat().st_mtime > KEPT_S:
                    remove(self._folder, old.name)
