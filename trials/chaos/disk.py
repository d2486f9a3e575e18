"""What a disk with a volatile cache may hold after the power went, out of a recording.

The recording (`recorder.c`) has every write, truncation, sync and rename in one order. After a cut
a file holds all that was written before its last sync, and of what came later any part: each write
kept, lost, or torn at a sector's edge. Names (creations, renames, deletions) come back up to their
folder's last sync, and from there on to some point. That is what POSIX lets a disk do, and worse
than most of them do; a protection that is not there shows itself in a few cuts.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEAD = struct.Struct("<cQQI")
SECTOR_B = 512


def built(folder: Path) -> Path:
    """The recorder as a library, compiled into ``folder``."""
    library = folder / "recorder.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    assert compiler, "a C compiler is needed to record what a process does to its disk"
    source = Path(__file__).with_name("recorder.c")
    command = [compiler, "-x", "c", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run([*command, "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def recording(library: Path, folder: Path, log: Path) -> dict[str, str]:
    """What the environment of a process must have to be recorded."""
    return {"LD_PRELOAD": str(library), "POWER_FOLDER": str(folder), "POWER_LOG": str(log)}


@dataclass(frozen=True)
class Step:
    """One recorded call."""

    kind: str
    handle: int
    """The process in its upper half, and the file that it has open."""
    at: int
    data: bytes


def steps(log: Path) -> Iterator[Step]:
    """Every recorded call, in order."""
    raw, place = log.read_bytes(), 0
    while place + _HEAD.size <= len(raw):
        kind, handle, at, size = _HEAD.unpack_from(raw, place)
        place += _HEAD.size
        yield Step(kind.decode(), handle, at, raw[place : place + size])
        place += size


@dataclass(eq=False)
class Content:
    """One file's bytes, whatever its names are."""

    synced: bytearray = field(default_factory=bytearray)
    later: list[Step] = field(default_factory=list)

    def sync(self) -> None:
        for step in self.later:
            _apply(self.synced, step)
        self.later.clear()

    def after_a_cut(self, dice: random.Random) -> bytes:
        """What may be there; each cut has its own habit, from losing all to keeping all."""
        kept = dice.choice((0.0, 0.5, 0.9, 1.0))
        there = bytearray(self.synced)
        for step in self.later:
            if dice.random() < kept:
                _apply(there, step)
            elif step.kind == "W" and dice.random() < 0.3:
                first, last = sorted(dice.randrange(0, len(step.data) + 1) for _ in range(2))
                first -= first % SECTOR_B
                last -= last % SECTOR_B
                torn = Step("W", step.handle, step.at + first, step.data[first:last])
                _apply(there, torn)
        return bytes(there)


def _apply(there: bytearray, step: Step) -> None:
    if step.kind == "T":
        size = step.at
        del there[size:]
    else:
        size = step.at + len(step.data) if step.data else 0
    there.extend(bytes(max(0, size - len(there))))
    if step.kind == "W":
        there[step.at : step.at + len(step.data)] = step.data


class Disk:
    """Follows a recording step by step, and can be cut at any of them."""

    def __init__(self, folder: Path) -> None:
        """``folder`` as it was when the recording began, all of it synced."""
        self._folder = folder
        self._names: dict[str, Content] = {
            str(path): Content(bytearray(path.read_bytes()))
            for path in folder.rglob("*")
            if path.is_file()
        }
        self._synced_names = dict(self._names)
        self._later: list[tuple[str, dict[str, Content]]] = []
        """After each change of a name that is not synced: its folder, and all names."""
        self._open: dict[int, Content | str] = {}

    def follow(self, step: Step) -> None:
        """Take one step."""
        match step.kind:
            case "O":
                self._opened(step)
            case "C":
                self._open.pop(step.handle, None)
            case "W" | "T":
                content = self._open[step.handle]
                assert isinstance(content, Content)
                content.later.append(step)
            case "S":
                self._sync(self._open[step.handle])
            case "U":
                path = step.data.decode()
                self._names.pop(path, None)
                self._renamed(path)
            case "R":
                before, after = step.data.decode().split("\0")
                self._names[after] = self._names.pop(before)
                self._renamed(after)

    def cut(self, dice: random.Random) -> dict[str, bytes]:
        """What may be on the disk if the power goes now: each file by its path."""
        names = self._synced_names
        if self._later and (kept := dice.randrange(len(self._later) + 1)):
            names = self._later[kept - 1][1]
        return {path: content.after_a_cut(dice) for path, content in names.items()}

    def _opened(self, step: Step) -> None:
        path = step.data.decode()
        if os.path.isdir(path):  # noqa: PTH112
            self._open[step.handle] = path
            return
        if step.at & 1 or path not in self._names:
            self._names[path] = Content()
            self._renamed(path)
        content = self._names[path]
        if step.at & 2:
            content.later.append(Step("T", step.handle, 0, b""))
        self._open[step.handle] = content

    def _renamed(self, path: str) -> None:
        self._later.append((os.path.dirname(path), dict(self._names)))  # noqa: PTH120

    def _sync(self, what: Content | str) -> None:
        if isinstance(what, Content):
            what.sync()
            return
        done = [place for place, (folder, _) in enumerate(self._later) if folder == what]
        if done:
            # Names of other folders that changed before come with them, as in one journal.
            self._synced_names = self._later[done[-1]][1]
            del self._later[: done[-1] + 1]
