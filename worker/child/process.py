"""One child process: started under guard, watched by blocking, ended with all that it started."""

from __future__ import annotations

import fcntl
import json
import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Self

from pydantic import ValidationError

from benchmarks.contracts import Event, ProcessSpec, Progress
from worker.child import process_tree
from worker.child.process_tree import Process, Tree
from worker.child.resource_limits import Allowance, Consumption, Excess
from worker.child.workspace import COMPILED
from worker.heartbeat import Cause

CHUNK_B = 2**20
"""Also the requested size of the pipe, so that a child rarely waits for a busy worker."""


@dataclass(frozen=True)
class Written:
    """The bytes that came through one pipe."""

    total_b: int
    kept: bytes
    """Its end."""


Hear = Callable[[bytes], None]
"""Takes what a child writes to standard error."""


class Output:
    """The reading end of a pipe that a child writes to; never blocks, never fills a disk."""

    def __init__(self, keep_b: int) -> None:
        """Keep the last ``keep_b`` bytes, and briefly a chunk more."""
        self._keep_b = keep_b
        self._kept = bytearray()
        self.total_b = 0
        self.fd, self.theirs = os.pipe()
        os.set_blocking(self.fd, False)
        with suppress(OSError):  # a user's share of pipe memory may be used up
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, CHUNK_B)

    def read(self) -> bytes | None:
        """Read up to a chunk: empty after the last writer's end, None while nothing is there."""
        try:
            chunk = os.read(self.fd, CHUNK_B)
        except BlockingIOError:
            return None
        self.total_b += len(chunk)
        self._kept += chunk
        del self._kept[: -self._keep_b]
        return chunk

    def drain(self, limit_b: int, hear: Hear = lambda text: None) -> Written:  # noqa: ARG005
        """Read what dead writers left, up to ``limit_b`` in all, in case one still writes."""
        before_b = -1
        while before_b < self.total_b <= limit_b:
            before_b = self.total_b
            if chunk := self.read():
                hear(chunk)
        return Written(self.total_b, bytes(self._kept))

    def close(self) -> None:
        """Give the reading end back; a writer that is left gets SIGPIPE."""
        os.close(self.fd)


LONGEST_EVENT_B = 65_536
NEWEST_EVENTS = 16
"""Events read at once: more would let junk keep the supervisor busy."""
LOG_KEPT_B = 64 * 2**10
"""Of standard error; a result carries less."""


class Ending(StrEnum):
    """A reason why the supervisor stopped watching."""

    EXITED = "exited"
    SILENT = "silent"
    OVERTIME = "overtime"
    FLOODED = "flooded"


@dataclass(frozen=True)
class Limits:
    """The limits at which a child is stopped, in s, bytes, and s on CLOCK_MONOTONIC."""

    silence_s: float
    until_s: float
    output_b: int
    tick_s: float
    allowance: Allowance


@dataclass(frozen=True)
class Task:
    """The command, environment, folders and limits that a child is started with."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    """For its temporary files."""
    place: Path | None
    """Where it runs; None is where this process does."""
    limits: Limits
    spec: ProcessSpec | None = None
    """What it finds on its standard input; None leaves that empty."""
    passed_fds: Sequence[int] = ()
    """Further descriptors that it gets, under the same numbers."""
    hidden: Sequence[Path] = ()
    """Folders that it must not see, beside those of its worker."""
    revision: str = ""
    """The revision whose code it loads. Without targets that is what is installed, and may change:
    a process that waits serves no other revision."""
    ahead: bool = False
    """Started before its job is known: `Child.take` gives it ``spec``. See `worker.ahead`."""
    compiles: bool = False
    """Its job compiles: started ahead, it loads the compiler too."""


@dataclass(frozen=True)
class Exit:
    """The exit code, the output and the surviving processes of a child."""

    code: int | None
    """As `subprocess` has it: negative for a signal; None if it does not die."""
    stdout: Written
    stderr: Written
    survivors: tuple[Process, ...]


class Child:
    """A running child. Leaving the ``with`` block kills whatever of it is left.

    The supervisor sleeps until a pipe or the exit is ready. A supervisor that polls would take a
    core from the data loader.
    """

    def __init__(self, task: Task, guard: Sequence[str], mark: str) -> None:
        """Start the command of ``task`` behind the words of ``guard``."""
        self._limits = limits = task.limits
        self._pending = b""
        self._event_b = 0
        self.last: Progress | None = None
        self._hear: Hear = lambda text: None  # noqa: ARG005
        self._stdin: BinaryIO | None = None
        with ExitStack() as undo:
            self._events, theirs = os.pipe()
            self._told_events = theirs
            undo.callback(os.close, self._events)
            os.set_blocking(self._events, False)
            with ExitStack() as handed_over:
                handed_over.callback(os.close, theirs)
                self._stdout = _output(limits.output_b, undo, handed_over)
                self._stderr = _output(LOG_KEPT_B, undo, handed_over)
                if task.ahead:
                    stdin, self._stdin = _pipe(undo, handed_over)
                else:
                    stdin = handed_over.enter_context(_document(task.spec, theirs))
                self._process = subprocess.Popen(
                    [*guard, *task.command, *_ahead(task, theirs)],
                    stdin=stdin,
                    stdout=self._stdout.theirs,
                    stderr=self._stderr.theirs,
                    env={**task.environment, process_tree.MARK: mark},
                    cwd=task.place,
                    pass_fds=(theirs, *task.passed_fds),
                    start_new_session=True,
                )
            undo.callback(_kill, self._process)
            self._exit = os.pidfd_open(self._process.pid)
            undo.callback(os.close, self._exit)
            self.tree = Tree.of(self._process.pid, mark)
            self._consumption = Consumption(self.tree.leader, task.folder, limits.allowance)
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self.end(0.0, 1.0)
        for number in (self._events, self._exit):
            os.close(number)
        if self._stdin is not None:
            _close(self._stdin)
        for output in (self._stdout, self._stderr):
            output.close()

    def waits(self) -> bool:
        """Return True if it was started ahead, knows what that is, and has not ended."""
        ready, _, _ = select.select([self._events, self._exit], [], [], 0.0)
        return ready == [self._events]

    def take(self, task: Task) -> None:
        """Give a child that waits what ``task`` measures, where it keeps what it compiles, and its
        limits.

        It reads in any case: if it has ended, `watch` tells of that.
        """
        assert self._stdin is not None
        assert task.spec is not None
        self._limits = task.limits
        late = {name: task.environment[name] for name in COMPILED if name in task.environment}
        began = json.dumps({"at_s": time.monotonic(), "environment": late})
        with suppress(BrokenPipeError):
            self._stdin.write(began.encode() + b"\n")
            self._stdin.write(task.spec.document(self._told_events))
        _close(self._stdin)

    def watch(
        self,
        interrupted: Callable[[], Cause | None],
        tell: Callable[[Progress], None],
        hear: Hear,
    ) -> Ending | Excess | Cause:
        """Block until the child exits, or ``interrupted`` gives a reason to end it; it may still
        run then.

        ``tell`` gets the child's progress, ``hear`` its standard error.
        """
        self._hear = hear
        outputs = {output.fd: output for output in (self._stdout, self._stderr)}
        with selectors.DefaultSelector() as selector:
            for number in (self._events, self._exit, *outputs):
                selector.register(number, selectors.EVENT_READ)
            heard_at_s = time.monotonic()
            while True:
                ready = {key.fd for key, _ in selector.select(self._limits.tick_s)}
                for number in ready & outputs.keys():
                    chunk = outputs[number].read()
                    if chunk == b"":
                        selector.unregister(number)
                    elif chunk and number == self._stderr.fd:
                        hear(chunk)
                if self._exit in ready:
                    return Ending.EXITED
                if self._events in ready and self._read_events(selector, tell):
                    heard_at_s = time.monotonic()
                if why := interrupted() or self._exceeded(heard_at_s):
                    return why

    def end(self, grace_s: float, patience_s: float) -> Exit:
        """End the child and everything that it started, then collect it."""
        survivors = tuple(process_tree.end(self.tree, grace_s, patience_s))
        leader_lives = any(process.pid == self.tree.leader for process in survivors)
        # Collected last: until then its number, which is its session's, cannot be given away.
        code = None if leader_lives else self._process.wait()
        limit_b = self._limits.output_b
        written = self._stdout.drain(limit_b), self._stderr.drain(limit_b, self._hear)
        return Exit(code, *written, survivors)

    def _exceeded(self, heard_at_s: float) -> Ending | Excess | None:
        limits, now_s = self._limits, time.monotonic()
        if now_s >= limits.until_s:
            return Ending.OVERTIME
        if now_s - heard_at_s >= limits.silence_s:
            return Ending.SILENT
        if max(self._stdout.total_b, self._stderr.total_b, self._event_b) > limits.output_b:
            return Ending.FLOODED
        return self._consumption.excess()

    def _read_events(
        self, selector: selectors.BaseSelector, tell: Callable[[Progress], None]
    ) -> bool:
        """Take what is in the pipe; say whether there was a sign of life."""
        chunk = os.read(self._events, LONGEST_EVENT_B)
        if not chunk:  # the child closed its end; its exit, or silence, is what comes next
            selector.unregister(self._events)
            return False
        self._event_b += len(chunk)
        *lines, rest = (self._pending + chunk).split(b"\n")
        self._pending = rest[-LONGEST_EVENT_B:]
        for line in reversed(lines[-NEWEST_EVENTS:]):
            try:
                self.last = Event.model_validate_json(line).progress
            except ValidationError:
                continue
            tell(self.last)
            return True
        return False


def _ahead(task: Task, events: int) -> list[str]:
    """Words that have a process load and wait, if it is started ahead."""
    if not task.ahead:
        return []
    return ["--await", str(events), *(["--compiles"] if task.compiles else [])]


def _document(spec: ProcessSpec | None, events: int) -> BinaryIO:
    file = os.fdopen(os.memfd_create("spec"), "w+b")
    file.write(spec.document(events) if spec else b"")
    file.seek(0)
    return file


def _pipe(undo: ExitStack, handed_over: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    read, write = os.pipe()
    mine = os.fdopen(write, "wb")
    undo.callback(_close, mine)
    return handed_over.enter_context(os.fdopen(read, "rb")), mine


def _close(file: BinaryIO) -> None:
    with suppress(BrokenPipeError):  # it is flushed first, and nobody may read any more
        file.close()


def _output(keep_b: int, undo: ExitStack, handed_over: ExitStack) -> Output:
    output = Output(keep_b)
    undo.callback(output.close)
    handed_over.callback(os.close, output.theirs)
    return output


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
