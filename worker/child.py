"""One child process: started in its own session, watched by blocking, ended with all it started."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from benchmarks.contracts import Event, Progress
from worker import launch, processes
from worker.heartbeat import Cause
from worker.processes import Process, Tree

LONGEST_EVENT_B = 65_536


class Ending(StrEnum):
    """Why the supervisor stopped watching."""

    EXITED = "exited"
    SILENT = "silent"
    OVERTIME = "overtime"
    FLOODED = "flooded"


@dataclass(frozen=True)
class Limits:
    """When a child is stopped, in s, bytes, and s on CLOCK_MONOTONIC."""

    silence_s: float
    until_s: float
    output_b: int
    tick_s: float


@dataclass(frozen=True)
class Exit:
    """What a child left behind."""

    code: int | None
    """As `subprocess` has it: negative for a signal; None if it does not die."""
    stdout: Path
    stderr: Path
    survivors: tuple[Process, ...]


class Child:
    """A running child. Leaving the ``with`` block kills whatever of it is left.

    Its event pipe and its exit are waited for together, so the supervisor sleeps while the child
    measures: a supervisor that polls takes a core from the data loader.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        mark: str,
        place: Path | None = None,
    ) -> None:
        """Start ``command``, with ``--events-fd N`` added, and its output in ``folder``.

        It runs in ``place``, or where this process does.

        Raises:
            OSError: it cannot be started or watched; then nothing of it is left.
        """
        self._stdout, self._stderr = folder / f"{mark}.out", folder / f"{mark}.err"
        self._pending = b""
        self.last: Progress | None = None
        with ExitStack() as undo:
            self._events, theirs = os.pipe()
            undo.callback(os.close, self._events)
            os.set_blocking(self._events, False)
            try:
                marked = {**environment, processes.MARK: mark}
                self._process = self._start(command, marked, theirs, place)
            finally:
                os.close(theirs)
            undo.callback(_kill, self._process)
            self._exit = os.pidfd_open(self._process.pid)
            undo.callback(os.close, self._exit)
            self.tree = Tree.of(self._process.pid, mark)
            undo.pop_all()

    def _start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        events: int,
        place: Path | None,
    ) -> subprocess.Popen[bytes]:
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            return subprocess.Popen(
                [*launch.tied(), *command, "--events-fd", str(events)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=place,
                pass_fds=(events,),
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.returncode is None:
            self.end(0.0, 1.0)
        os.close(self._events)
        os.close(self._exit)

    def watch(
        self,
        limits: Limits,
        interrupted: Callable[[], Cause | None],
        tell: Callable[[Progress], None],
    ) -> Ending | Cause:
        """Block until the child exits, or there is a reason to end it; it may still run then."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._events, selectors.EVENT_READ)
            selector.register(self._exit, selectors.EVENT_READ)
            heard_at_s = time.monotonic()
            while True:
                ready = {key.fd for key, _ in selector.select(limits.tick_s)}
                if self._exit in ready:
                    return Ending.EXITED
                if self._events in ready and self._read_events(selector, tell):
                    heard_at_s = time.monotonic()
                if why := interrupted() or self._exceeded(limits, heard_at_s):
                    return why

    def end(self, grace_s: float, patience_s: float) -> Exit:
        """End the child and everything that it started, then collect it."""
        survivors = tuple(processes.end(self.tree, grace_s, patience_s))
        leader_lives = any(process.pid == self.tree.leader for process in survivors)
        # Collected last: until then its number, which is its session's, cannot be given away.
        code = None if leader_lives else self._process.wait()
        return Exit(code, self._stdout, self._stderr, survivors)

    def _exceeded(self, limits: Limits, heard_at_s: float) -> Ending | None:
        now_s = time.monotonic()
        if now_s >= limits.until_s:
            return Ending.OVERTIME
        if now_s - heard_at_s >= limits.silence_s:
            return Ending.SILENT
        sizes = (path.stat().st_size for path in (self._stdout, self._stderr))
        return Ending.FLOODED if max(sizes) > limits.output_b else None

    def _read_events(
        self, selector: selectors.BaseSelector, tell: Callable[[Progress], None]
    ) -> bool:
        """Take what is in the pipe; say whether there was a sign of life."""
        chunk = os.read(self._events, LONGEST_EVENT_B)
        if not chunk:  # the child closed its end; its exit, or silence, is what comes next
            selector.unregister(self._events)
            return False
        *lines, rest = (self._pending + chunk).split(b"\n")
        self._pending = rest[-LONGEST_EVENT_B:]
        for line in reversed(lines):
            try:
                self.last = Event.model_validate_json(line).progress
            except ValidationError:
                continue
            tell(self.last)
            return True
        return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a child that cannot be watched, before it has done anything."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
