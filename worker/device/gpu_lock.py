"""Locks of the GPUs of this host, so that no other worker is a neighbour of a gang.

A worker of one GPU shares its lock with others of that GPU, for the service gives them no two jobs
at once. A worker that offers several holds each alone.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from worker.state_dir import Occupied


@contextmanager
def held(uuids: Sequence[str], worker: str) -> Iterator[None]:
    """Hold GPUs for ``worker``; the kernel lets them go if the process dies.

    Raises:
        Occupied: another worker holds one of them, or its lock cannot be used.
    """
    kind = fcntl.LOCK_EX if len(uuids) > 1 else fcntl.LOCK_SH
    with ExitStack() as locks:
        for uuid in uuids:
            lock = _opened(Path(tempfile.gettempdir()) / f"throughline-{uuid}.lock")
            locks.callback(os.close, lock)
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(lock, 200, 0).decode(errors="replace")
                raise Occupied(
                    f"The worker {holder} on this host holds the GPU {uuid}, and one that offers "
                    "several has them alone: stop it, or offer other GPUs with --gpus."
                ) from None
            with suppress(OSError):  # another user's file
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{worker} (process {os.getpid()})".encode(), 0)
        yield


def _opened(path: Path) -> int:
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except PermissionError:  # another user's
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise Occupied(f"The lock {path} cannot be used ({error.strerror}).") from error
