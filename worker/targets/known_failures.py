"""The revisions that cannot be built: no further job tries, for they fail the same way again."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path

from worker.state_dir import write_durably
from worker.targets.commands import Unbuildable
from worker.targets.definitions import Bounded

KEPT_S = 86_400.0
"""A failure is believed so long: what an index offers may change."""


class KnownFailures:
    """What is known of one target's revisions, as it is defined now."""

    def __init__(self, folder: Path, target: Bounded, python: str) -> None:
        """Another definition or another Python may build what this one cannot."""
        self._folder = folder
        said = hashlib.sha256(f"{target.model_dump_json()} {Path(python).resolve()}".encode())
        self._decides = said.hexdigest()[:16]

    def of(self, name: str) -> Unbuildable | None:
        """Return why ``name`` cannot be built; None if that is not known, or long ago."""
        place = self._place(name)
        with suppress(OSError, ValueError, KeyError):
            if time.time() - place.stat().st_mtime < KEPT_S:
                kept = json.loads(place.read_text(encoding="utf-8"))
                return Unbuildable(str(kept["sentence"]), str(kept["log"]))
        return None

    def keep(self, name: str, failure: Unbuildable) -> None:
        """Remember a failure, and forget those of long ago."""
        with suppress(OSError):  # a full disk: the next job will try again
            self._write(name, failure)

    def _write(self, name: str, failure: Unbuildable) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for place in self._folder.iterdir():
            if time.time() - place.stat().st_mtime >= KEPT_S:
                place.unlink()
        kept = {"sentence": str(failure), "log": failure.log}
        write_durably(self._place(name), json.dumps(kept).encode())

    def _place(self, name: str) -> Path:
        return self._folder / f"{name}.{self._decides}.json"
