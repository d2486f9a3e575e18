"""The newest release of each package of which a worker makes versions, for schedules that follow
it: ``ref:upstream:torch``."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.contracts import Head, line
from benchmarks.contracts.pins import UPSTREAM
from worker.targets.commands import BuildFailed
from worker.targets.definitions import Upstream
from worker.targets.environment import Uv
from worker.targets.upstream import newest

LOOK_EVERY_S, AGAIN_S = 3_600.0, 300.0
"""Time between two looks at the index; after one that failed."""
FRESH_S = 3 * LOOK_EVERY_S
"""What was seen longer ago is not told."""
LOOK_S = 60.0
"""Longest look."""


class Releases:
    """What the index had at the last look."""

    def __init__(self, upstream: Upstream, python: str, folder: Path, log: Path) -> None:
        """Look as ``upstream`` and uv's own settings say, with files in ``folder``."""
        self._upstream = upstream
        self._python = python
        self._folder = folder
        self._log = log
        self._look_at_s = -math.inf
        self._seen_s = -math.inf
        self._heads: dict[str, Head] = {}
        self._trouble = "It was not asked yet."

    def refresh(self) -> None:
        """Look, unless that was done lately."""
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        try:
            for package in self._upstream.packages:
                self._look(package)
            self._look_at_s, self._seen_s = now_s + LOOK_EVERY_S, time.monotonic()
        except (BuildFailed, OSError) as failed:
            self._look_at_s, self._trouble = now_s + AGAIN_S, line(str(failed))

    def told(self) -> tuple[str, tuple[Head, ...]]:
        """What keeps the worker from knowing, or nothing; and the newest releases."""
        if time.monotonic() - self._seen_s > FRESH_S:
            return self._trouble, ()
        return "", tuple(self._heads.values())

    def _look(self, package: str) -> None:
        bounds = self._upstream.model_copy(update={"build_s": LOOK_S})
        self._folder.mkdir(parents=True, exist_ok=True)
        # A cache of its own: builds that go on meanwhile may empty theirs.
        uv = Uv(bounds, self._python, self._folder / "environments", self._log)
        revision = newest(uv, package, self._upstream.index, self._folder)
        known = self._heads.get(package)
        if known is None or known.commit != revision:
            seen = {"ref": f"refs/heads/{package}", "commit": revision, "at": datetime.now(UTC)}
            self._heads[package] = Head.model_validate({"target": UPSTREAM, **seen})
