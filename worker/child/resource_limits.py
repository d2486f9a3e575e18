"""A running child's use of its machine beside time: processes and room for temporary files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from worker.child import process_tree

LOOK_EVERY_S = 1.0
MOST_FILES = 200_000
"""Most files in a folder: the file system has only so many inodes."""
WORTH_A_LOOK = 1 / 8
"""Growth of the file system, as a share of the limit, after which a folder is measured again."""
LOOK_ANYWAY_S = 10.0
"""Longest time between two measurements: space freed by others hides a child's growth."""


class Excess(StrEnum):
    """A resource that a child took too much of."""

    PROCESSES = "processes"
    TEMPORARY = "temporary"
    DISK = "disk"


@dataclass(frozen=True)
class Allowance:
    """The most that a child may take, in processes and in bytes."""

    processes: int
    temporary_b: int
    reserve_b: int
    """What is to stay free on the temporary folder's file system."""


@dataclass(frozen=True)
class Room:
    """A file system's state, in bytes and files."""

    used_b: int
    files: int
    free_b: int

    @classmethod
    def of(cls, folder: Path) -> Room:
        """Ask the file system of ``folder``."""
        usage = os.statvfs(folder)
        block_b = usage.f_frsize
        used_b = (usage.f_blocks - usage.f_bfree) * block_b
        return cls(used_b, usage.f_files - usage.f_ffree, usage.f_bavail * block_b)


class DiskWatch:
    """Reads a folder when its file system has grown enough, and else from time to time."""

    def __init__(self, folder: Path, limit_b: float) -> None:
        """Begin with ``folder`` as it is."""
        self.folder = folder
        self._limit_b = limit_b
        self._measured = Room.of(folder)
        self._measure_by_s = time.monotonic() + LOOK_ANYWAY_S

    def still_fits(self) -> bool:
        """Return True unless the folder was read now, and holds more than it may."""
        try:
            room = Room.of(self.folder)
        except OSError:  # it was removed: there is nothing in it
            return True
        if not self._worth_measuring(room):
            return True
        self._measured = room
        well = fits(self.folder, self._limit_b)
        self._measure_by_s = time.monotonic() + LOOK_ANYWAY_S
        return well

    def _worth_measuring(self, room: Room) -> bool:
        grown_b = room.used_b - self._measured.used_b
        more_files = room.files - self._measured.files
        return (
            grown_b >= self._limit_b * WORTH_A_LOOK
            or more_files >= MOST_FILES * WORTH_A_LOOK
            or time.monotonic() >= self._measure_by_s
        )


class Consumption:
    """Looks at processes and free space once a second; reads the folder when necessary."""

    def __init__(self, leader: int, folder: Path, allowance: Allowance) -> None:
        """Begin with ``folder`` as it is."""
        self._leader = leader
        self._folder = folder
        self._allowance = allowance
        self._disk = DiskWatch(folder, allowance.temporary_b)
        # A disk that was nearly full before is not this child's doing.
        self._reserve_b = min(allowance.reserve_b, Room.of(folder).free_b // 2)
        self._due_s = time.monotonic() + LOOK_EVERY_S

    def excess(self) -> Excess | None:
        """Return what the child takes too much of, if anything; cheap until a second has passed."""
        if time.monotonic() < self._due_s:
            return None
        if process_tree.count_below(self._leader, self._allowance.processes) is None:
            return Excess.PROCESSES
        try:
            excess = self._excess_on_disk()
        except OSError:  # the child removed its folder: there is nothing in it
            excess = None
        self._due_s = time.monotonic() + LOOK_EVERY_S
        return excess

    def _excess_on_disk(self) -> Excess | None:
        if Room.of(self._folder).free_b < self._reserve_b:
            return Excess.DISK
        return None if self._disk.still_fits() else Excess.TEMPORARY


def fits(folder: Path, limit_b: float) -> bool:
    """Return True if ``folder`` holds at most ``limit_b`` bytes of disk and `MOST_FILES` files.

    Unreadable folders do not count; the reserve covers them.
    """
    taken_b = 0
    for files, size_b in enumerate(sizes_b(folder), 1):
        taken_b += size_b
        if taken_b > limit_b or files > MOST_FILES:
            return False
    return True


def sizes_b(folder: Path) -> Iterator[int]:
    """Yield the bytes of disk of each file and folder below ``folder`` that can be read."""
    left = [str(folder)]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    yield entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        except OSError:  # it has gone, or lies too deep
            continue
