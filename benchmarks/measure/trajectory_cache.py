"""Trajectories kept on disk from one process to the next."""

from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.diagnosis.parity import Trajectory

KEPT = 60
"""Files that stay, the newest first: each night's code has references of its own."""


@dataclass(frozen=True)
class Shelf:
    """A folder of trajectories by key. A file is whole or not there, whoever writes at once."""

    folder: Path

    def load(self, key: str) -> Trajectory | None:
        """Return the trajectory under ``key``; None if there is none, or it cannot be read."""
        try:
            with self._path(key).open("rb") as file, np.load(file, allow_pickle=False) as kept:
                steps = (int(step) for step in kept["gradient_steps"])
                norms = (float(norm) for norm in kept["gradient_norms"])
                return Trajectory(
                    tuple(float(loss) for loss in kept["losses"]),
                    dict(zip(steps, norms, strict=True)),
                    kept["update"],
                    tuple(int(part) for part in kept["parts"]),
                    int(kept["skips"]),
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def keep(self, key: str, trajectory: Trajectory) -> None:
        """Keep ``trajectory``; a disk that is full costs only the keeping."""
        half = self.folder / f".{key}.{os.getpid()}"
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with half.open("wb") as file:
                    np.savez(
                        file,
                        losses=np.array(trajectory.losses),
                        gradient_steps=np.array(list(trajectory.gradient_norms)),
                        gradient_norms=np.array(list(trajectory.gradient_norms.values())),
                        update=trajectory.update,
                        parts=np.array(trajectory.parts, dtype=np.int64),
                        skips=np.array(trajectory.skips),
                    )
                half.replace(self._path(key))
            finally:
                half.unlink(missing_ok=True)
            self._trim()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npz"

    def _trim(self) -> None:
        files = sorted(self.folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)
        for path in files[:-KEPT]:
            path.unlink(missing_ok=True)
