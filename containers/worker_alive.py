"""The worker image's health check: is the worker's process alive, and can it keep what it spools?

Exit 0 if so; else exit 1 with one sentence, which `docker inspect` shows. It asks nothing of the
service: a worker whose service is away is healthy, it waits and keeps its results.
"""

from __future__ import annotations

import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path


def problem(proc: Path, state_dir: Path) -> str | None:
    """Say in a sentence what is wrong with this container's worker, or None if it is well."""
    if not any(_is_worker(process) for process in proc.glob("[0-9]*")):
        return "No worker process is alive in this container: see its log."
    try:
        with tempfile.TemporaryFile(dir=state_dir) as probe:
            probe.write(b"alive")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return (
            f"The state folder {state_dir} cannot be written ({error.strerror}): results cannot be "
            "spooled; check the volume's space and owner."
        )
    return None


def _is_worker(process: Path) -> bool:
    """Whether ``process``, a folder under /proc, is a live ``python -m worker``."""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        # The state follows the command's name, which stands in brackets and may hold anything.
        state = (process / "stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False  # it ended while we looked
    module = (b"-m", b"worker")
    return state not in {b"Z", b"X"} and module in pairwise(words)


if __name__ == "__main__":
    state = Path(os.environ.get("THROUGHLINE_STATE_DIR", ".throughline"))
    if (found := problem(Path("/proc"), state)) is not None:
        sys.exit(found)
