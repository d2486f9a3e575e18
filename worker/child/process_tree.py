"""Trees of processes: who belongs to a child, and how all of them are ended.

A benchmark's grandchild can outlive its parent, leave its session, even outlive the worker; on a
GPU it would spoil the next measurement. So a child is found again by three signs: its session, a
mark in the environment that every descendant inherits, and descent from either. Its leader is a
guard (`worker.child.guard`), which inherits orphans: so descent alone finds whatever it contains.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "THROUGHLINE_CHILD"
"""Environment variable that carries a child's mark."""


@dataclass(frozen=True)
class Process:
    """One line of /proc/<pid>/stat, as far as it matters here."""

    pid: int
    state: str
    parent: int
    session: int
    started: int
    """Clock ticks since boot: with the pid it names a process for good."""


@dataclass(frozen=True)
class Tree:
    """A child that leads its own session, and all that came of it."""

    leader: int
    started: int
    mark: str
    boot: str

    @classmethod
    def of(cls, leader: int, mark: str) -> Tree:
        """Take down the identity of a process that has just been started."""
        process = _read(leader)
        return cls(leader, process.started if process else 0, mark, boot_id())


def boot_id() -> str:
    """Names this run of the kernel: a pid from another one means nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def members(tree: Tree) -> list[Process]:
    """Everything of ``tree`` that still runs; a process that waits to be reaped does not.

    A session is trusted while its leader is the process that was started, alive or not yet reaped:
    only then its number cannot belong to anybody else.
    """
    if tree.boot != boot_id():
        return []
    everything = {process.pid: process for process in _snapshot()}
    leader = everything.get(tree.leader)
    session = tree.leader if leader and leader.started == tree.started else None
    pids = {
        process.pid
        for process in everything.values()
        if process.started >= tree.started
        and (process.session == session or _carries(process.pid, tree.mark))
    }
    _add_descendants(pids, everything)
    _reap(pids - {tree.leader}, everything)
    pids.discard(os.getpid())
    return [everything[pid] for pid in sorted(pids) if everything[pid].state not in "ZX"]


def identity(pid: int) -> tuple[int, int] | None:
    """Names a process for good: its pid and its start in ticks; None if it has gone."""
    process = _read(pid)
    return (pid, process.started) if process and process.state not in "ZX" else None


def belongs(pid: int, tree: Tree) -> bool:
    """Return True if this one process is of ``tree``; cheaper than a search for all of them."""
    process = _read(pid)
    if process is None or process.started < tree.started:
        return False
    if process.session == tree.leader or _carries(pid, tree.mark):
        return True
    while process and process.parent:
        if process.parent == tree.leader:
            return True
        process = _read(process.parent)
    return False


def count_below(leader: int, most: int) -> int | None:
    """Count the processes that descend from ``leader``; None if they are more than ``most``.

    It reads these processes only, not the machine's. A kernel without such lists counts none.
    """
    seen: set[int] = set()
    left = [leader]
    while left:
        born = set(_children(left.pop())) - seen
        seen |= born
        left += born
        if len(seen) > most:
            return None
    return len(seen)


def alive(identities: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return those of these processes, each a pid and its start in ticks, that still run."""
    processes = (_read(pid) for pid, _ in identities)
    return {(p.pid, p.started) for p in processes if p and p.state not in "ZX"} & identities


def end(tree: Tree, grace_s: float, patience_s: float) -> list[Process]:
    """End all of ``tree``: SIGTERM to its group, ``grace_s`` seconds, SIGKILL to every member.

    The leader goes last: it inherits orphans, so until then descent finds them.

    Returns what is still there ``patience_s`` seconds after the first SIGKILL: processes that the
    kernel cannot end yet, such as one that waits inside a driver.
    """
    if grace_s > 0 and any(process.pid == tree.leader for process in members(tree)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(tree.leader, signal.SIGTERM)
        _await_exit(tree.leader, grace_s)
    give_up_at = time.monotonic() + patience_s
    empty_scans = 0
    while empty_scans < 2:  # one scan may miss what was being forked while it read
        alive = members(tree)
        below = [process for process in alive if process.pid != tree.leader]
        for process in below or alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        if alive and time.monotonic() > give_up_at:
            return alive
        empty_scans = 0 if alive else empty_scans + 1
        time.sleep(0.001)
    return []


def _await_exit(pid: int, limit_s: float) -> None:
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([watched], [], [], limit_s)
    finally:
        os.close(watched)


def _snapshot() -> list[Process]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    return [process for process in map(_read, pids) if process]


def _read(pid: int) -> Process | None:
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # it has gone
        return None
    # The command name stands in brackets and may itself hold spaces and brackets.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def _carries(pid: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has gone, or it belongs to another user and is not ours
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")


def _children(pid: int) -> list[int]:
    """The children of all of a process's threads."""
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with suppress(OSError):
                listed = Path(f"/proc/{pid}/task/{thread}/children").read_bytes()
                children += map(int, listed.split())
    return children


def _add_descendants(pids: set[int], everything: dict[int, Process]) -> None:
    while True:
        born = {p.pid for p in everything.values() if p.parent in pids and p.pid not in pids}
        if not born:
            return
        pids |= born


def _reap(pids: set[int], everything: dict[int, Process]) -> None:
    for pid in pids:
        if everything[pid].state == "Z" and everything[pid].parent == os.getpid():
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
