"""The revisions with a checkout on this machine, and reports of them to the service."""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self

from benchmarks.contracts import CommitRange
from worker.client import ClientError
from worker.settings import REVISION
from worker.state_dir import Occupied

log = logging.getLogger(__name__)

MOST_REVISIONS = 1_000
"""As many as an introduction may name."""
NAME_DEPTH = 4
"""Most parts of a revision's name: ``feature/fast`` has two."""
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]{0,99}")
_NOTHING = object()
"""Value before the first look, so that the first look always reports."""
ENOUGH_S = 5.0
"""Longest wait for a look that is under way: what it runs ends with the worker."""
LOOK_S = 1.0
"""Pause between two looks: a gate may follow a deployment at once."""
TELL_AGAIN_S = 30.0
"""Longest pause between two reports: the answer may ask for a range of commits, for which somebody
waits."""


class Checkouts:
    """The checkouts at `Settings.worker_target`; looked at often, beside measurements.

    A folder without files, such as the ``feature`` of ``feature/fast``, may hold further revisions.
    A folder with a file is a checkout and is not looked into again.
    """

    def __init__(self, template: str) -> None:
        """Look below ``template``; without one there is nothing to look at."""
        before, _, after = template.partition(REVISION)
        self._before = before.rpartition("/")[2]
        self._after = after.partition("/")[0]
        self._folder = before[: len(before) - len(self._before)]
        self._rest = after[len(self._after) :]
        self._whole: set[tuple[str, int]] = set()

    def refresh(self) -> None:
        """Do nothing: to look at folders takes no time."""

    def told(self) -> Mapping[str, object]:
        """What an introduction says of them."""
        return {"revisions": self.revisions()}

    def list_range(self, asked: CommitRange | None) -> None:
        """List nothing: folders have no history, and the service does not ask for one."""

    def revisions(self) -> tuple[str, ...] | None:
        """Their names, sorted; None if there are more than an introduction may name."""
        if not self._folder:
            return ()
        named = (self._revision(name) for name in self._names(self._folder, "", NAME_DEPTH))
        revisions = sorted(name for name in named if name)
        return tuple(revisions) if len(revisions) <= MOST_REVISIONS else None

    def _revision(self, name: str) -> str:
        """The revision of a folder with this name; empty if it is of none."""
        length = len(name) - len(self._after)
        if not (name.startswith(self._before) and name.endswith(self._after)):
            return ""
        revision = name[len(self._before) : length]
        if not _REVISION.fullmatch(revision):
            return ""
        if self._rest and not Path(f"{self._folder}{name}{self._rest}").is_dir():
            return ""
        return revision

    def _names(self, folder: str, below: str, depth: int) -> Iterator[str]:
        """The folders below one, by their path from where the revisions begin."""
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    name = f"{below}{entry.name}"
                    yield name
                    if depth > 1 and not entry.is_symlink() and self._may_contain_more(entry):
                        yield from self._names(entry.path, f"{name}/", depth - 1)

    def _may_contain_more(self, entry: os.DirEntry[str]) -> bool:
        place = entry.path, entry.inode()
        if place in self._whole:
            return False
        with suppress(OSError), os.scandir(entry.path) as inside:
            if all(child.is_dir(follow_symlinks=False) for child in inside):
                return True
        self._whole.add(place)
        return False


class HasRevisions(Protocol):
    """What knows the revisions that a worker can measure."""

    def refresh(self) -> None:
        """Look again, where that takes long; nobody waits for it."""

    def told(self) -> Mapping[str, object]:
        """What an introduction says of them."""

    def list_range(self, asked: CommitRange | None) -> None:
        """Look up the commits that the service asked for, to be told next."""


class Deployments:
    """Looks for new checkouts, or new commits, from a thread while its ``with`` block lasts.

    The worker itself would report them only after its present wait or measurement, and the service
    refuses a gate of a revision that no worker has.
    """

    def __init__(self, checkouts: HasRevisions, tell: Callable[[], CommitRange | None]) -> None:
        """Call ``tell``, which introduces the worker again, on a change and twice a minute; it
        returns the commits that the service asks for."""
        self._checkouts = checkouts
        self._tell = tell
        self._reported: object = _NOTHING
        self._told_s = -math.inf
        """When that was, on CLOCK_MONOTONIC."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deployments", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(ENOUGH_S)

    def _watch(self) -> None:
        said = ""
        while not self._ended.wait(LOOK_S):
            try:
                self._look()
                said = ""
            except Exception as failed:  # the thread goes on for as long as the worker does
                if repr(failed) != said:
                    said = repr(failed)
                    log.exception("The revisions here could not be told; trying again.")

    def _look(self) -> None:
        self._checkouts.refresh()
        told = self._checkouts.told()
        if told != self._reported or time.monotonic() - self._told_s >= TELL_AGAIN_S:
            # The loop that claims jobs handles an absent service, and a refusal.
            with suppress(ClientError, Occupied):
                asked = self._tell()
                self._reported, self._told_s = told, time.monotonic()
                self._checkouts.list_range(asked)
