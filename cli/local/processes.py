"""Child processes: each in a session of its own, with a log file, and none outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import die_with_parent
from worker.child import process_tree

_POLL_S = 0.05
_AGAIN_S = 0.5
_KILL_S = 10.0
"""A process that lives so long after SIGKILL waits inside a driver."""


class Child:
    """One child process. It never sees the terminal's Ctrl-C; its parent decides when it ends.

    When the parent dies, the kernel kills it with SIGKILL. On SIGTERM a worker would first finish
    its case, for a service that is gone as well. Results are on disk.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        mark = uuid.uuid4().hex
        with log.open("ab") as sink:
            self._log_start = sink.tell()
            self._process = subprocess.Popen(
                [*die_with_parent.tied(), *argv],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**env, process_tree.MARK: mark},
                start_new_session=True,
            )
        self._tree = process_tree.Tree.of(self._process.pid, mark)

    @property
    def pid(self) -> int:
        """The process id, also after its end."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def last_lines(self, count: int = 12) -> list[str]:
        """The last lines that this start of it wrote into its log."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").splitlines()[-count:]

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process itself, not to its children."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its descendants, also in other sessions; wait for its end."""
        process_tree.end(self._tree, 0.0, _KILL_S)
        self._process.wait()


def wait_for(children: Sequence[Child], patience_s: float) -> bool:
    """Wait until all ``children`` have ended; False when ``patience_s`` was not enough."""
    deadline = time.monotonic() + patience_s
    while any(child.returncode is None for child in children):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def stop(children: Sequence[Child], patience_s: float) -> None:
    """Ask ``children`` to end, wait, and kill those that have not, with their descendants.

    They are asked repeatedly, because two signals that come close together count as one.
    """
    deadline = time.monotonic() + patience_s
    while (left_s := deadline - time.monotonic()) > 0:
        for child in children:
            child.ask_to_stop()
        if wait_for(children, min(_AGAIN_S, left_s)):
            break
    for child in children:
        child.kill()
