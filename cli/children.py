"""Child processes: each in a session of its own, with a log file, and none outlives its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.05


def _end_with_parent() -> None:
    """Have Linux kill this process when its parent dies, however it dies; elsewhere no promise.

    Not SIGTERM, on which a worker would first finish its case, for a service that is gone as well.
    Whatever a worker or a service had promised is on disk by then.
    """
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return


class Child:
    """One child process. It never sees the terminal's Ctrl-C; its parent decides when it ends.

    Start children before any thread: they are prepared between fork and exec.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            self._log_start = sink.tell()
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - see the class: no thread yet
            )

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
        """Send SIGTERM to the process itself; what it started is its own to end."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; False when ``timeout_s`` was not enough."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def family(self) -> list[psutil.Process]:
        """The process and everything below it, other sessions included, as of now."""
        try:
            parent = psutil.Process(self.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self, family: Sequence[psutil.Process] | None = None) -> None:
        """Kill ``family`` (by default everything below it now) and wait until it is gone."""
        for process in self.family() if family is None else family:
            try:
                process.kill()  # psutil refuses if the id has gone to another process
            except psutil.NoSuchProcess:
                continue
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
    """Ask ``children`` to end, wait, and kill whoever has not ended and what it left behind."""
    families = {child.pid: child.family() for child in children}
    for child in children:
        child.ask_to_stop()
    wait_for(children, patience_s)
    for child in children:
        child.kill([*families[child.pid], *child.family()])
