"""The output of a child: counted in full, its end kept in memory, nothing of it on a disk."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass

CHUNK_B = 2**20
"""Also the size asked of the pipe, so that a child rarely waits for a busy worker."""


@dataclass(frozen=True)
class Written:
    """The bytes that came through one pipe."""

    total_b: int
    kept: bytes
    """Its end."""


class Output:
    """The reading end of a pipe that a child writes to; never blocks, never fills a disk."""

    def __init__(self, keep_b: int) -> None:
        """``keep_b`` bytes of its end are kept, and briefly a chunk more.

        Raises:
            OSError: there is no pipe to be had.
        """
        self._keep_b = keep_b
        self._kept = bytearray()
        self.total_b = 0
        self.fd, self.theirs = os.pipe()
        os.set_blocking(self.fd, False)
        with suppress(OSError):  # a user's share of pipe memory may be used up
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, CHUNK_B)

    def read(self) -> bytes | None:
        """Take what is there, up to a chunk; nothing once nobody can write, None before that."""
        try:
            chunk = os.read(self.fd, CHUNK_B)
        except BlockingIOError:
            return None
        self.total_b += len(chunk)
        self._kept += chunk
        del self._kept[: -self._keep_b]
        return chunk

    def drain(self, limit_b: int) -> Written:
        """Take what its dead writers left behind; ``limit_b`` in all, in case one still writes."""
        before_b = -1
        while before_b < self.total_b <= limit_b:
            before_b = self.total_b
            self.read()
        return Written(self.total_b, bytes(self._kept))

    def close(self) -> None:
        """Give the reading end back; a writer that is left gets SIGPIPE."""
        os.close(self.fd)
