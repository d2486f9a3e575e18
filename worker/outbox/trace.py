"""Takes the profiler's trace from a child, without trusting the child's files.

A folder is made and opened before the child starts, and the file is opened within it by our own
name for it: whatever the child links or renames, no other file of this machine is read. Irregular
files and too large ones are left where they are.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import artifact_kinds, trace_file
from benchmarks.contracts import Result, Status

NAME = "trace.json.gz"
ENDED_BEFORE = "The measurement ended before its trace was written."
_NONE_WRITTEN = "The child wrote no trace, though it was asked for one."
_NO_FILE = "What the child left as its trace is no regular file."


@dataclass(frozen=True)
class Place:
    """The place where one child is to write its trace."""

    file: Path
    folder: int
    """The folder of it, open."""

    def take(self, result: Result) -> tuple[bytes, str]:
        """Return the child's trace and "", or no bytes and the reason why there is no trace.

        ``result`` is the child's own, which may give that reason.
        """
        try:
            body = _read(self.folder)
        except FileNotFoundError:
            return b"", _why(result)
        except OSError as error:
            return b"", f"The child's trace cannot be read ({error.strerror})."
        flaw = trace_file.flaw(body) if body is not None else _NO_FILE
        return (b"" if flaw else body or b""), flaw


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    """Make a place for a trace in a job's own folder."""
    subfolder = Path(tempfile.mkdtemp(prefix="trace-", dir=folder))
    handle = os.open(subfolder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield Place(subfolder / NAME, handle)
    finally:
        os.close(handle)


def with_trace_outcome(result: Result, absent: str) -> Result:
    """Return ``result`` with the reason why it has no trace, empty if it has one.

    The child got a file's name in place of the protocol's request, which is restored.
    """
    protocol = result.protocol.model_copy(update={"trace": True})
    return result.model_copy(update={"protocol": protocol, "trace_absent": absent})


def _read(folder: int) -> bytes | None:
    """At most one byte more than a trace may have; None if it is no regular file."""
    # O_NONBLOCK: opening a pipe of that name would wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(NAME, flags, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(artifact_kinds.LIMIT_B + 1)
    finally:
        os.close(handle)


def _why(result: Result) -> str:
    profile = result.replicates[0].profile if result.replicates else None
    if profile is not None and profile.absent:
        return profile.absent
    return _NONE_WRITTEN if result.status is Status.OK else ENDED_BEFORE
