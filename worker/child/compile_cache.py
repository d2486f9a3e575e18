"""Compiled code that outlives a replicate of a case, so that the others find warm caches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.contracts import Id, JobSpec
from worker.child.workspace import remove

KEPT_S = 2 * 86_400.0
"""A case whose next replicate never came leaves its caches for so long."""


class Caches:
    """A folder with one folder a case."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def of(self, group: Id | None, spec: JobSpec) -> Iterator[Path | None]:
        """Yield the folder of a case with several replicates; it goes with the last. Else None.

        Raises:
            OSError: the folder cannot be made.
        """
        if group is None or spec.protocol.replicates == 1:
            yield None
            return
        self._clear()
        folder = self._folder / group
        if spec.replicate == 1:  # what is there is of an attempt that was lost: begin cold
            remove(self._folder, group)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.absolute()
        if spec.replicate >= spec.protocol.replicates:
            remove(self._folder, group)

    def _clear(self) -> None:
        with suppress(OSError):
            for old in self._folder.iterdir():
                if time.time() - old.stat().st_mtime > KEPT_S:
                    remove(self._folder, old.name)
