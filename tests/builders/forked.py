"""Our programs as processes that start at once: see `builders.forkserver`."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]


class Forked:
    """A running program; what tests use of `subprocess.Popen`."""

    def __init__(self, status: socket.socket, words: tuple[str, ...]) -> None:
        self._status = status
        self.args = words
        self.pid = int(status.recv(32))
        self.returncode: int | None = None
        self.stderr: IO[str] | None = None
        """Where whoever started it reads what it says."""

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """What it says from now on to its end."""
        assert self.stderr is not None
        with self.stderr as said:
            rest = said.read()
        self.wait(timeout)
        return None, rest

    def _ended(self, limit_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], limit_s)[0]:
            self.returncode = int(self._status.recv(32))
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Starts `python -m WORDS` for this process."""

    def __init__(self, asking: socket.socket) -> None:
        self._asking = asking

    def start(
        self,
        *words: str,
        folder: Path,
        environment: Mapping[str, str],
        stdout: IO[bytes] | IO[str],
        stderr: IO[bytes] | IO[str],
        stdin: IO[bytes] | None = None,
        session: bool = False,
        group: int | None = None,
        passed: Sequence[int] = (),
    ) -> Forked:
        """Start a module with arguments; ``session``: in one of its own; ``group``: in a process
        group, with 0 in one of its own; ``passed``: descriptors that it gets under their numbers.
        """
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "words": words,
            "folder": str(folder),
            "environment": dict(environment),
            "session": session,
            "group": group,
            "passed": list(passed),
        }
        with its, Path(os.devnull).open("rb") as nothing:
            streams = (stdin or nothing, stdout, stderr, its)
            files = [*(stream.fileno() for stream in streams), *passed]
            socket.send_fds(self._asking, [json.dumps(request).encode()], files)
            return Forked(mine, words)

    def run(
        self,
        *words: str,
        folder: Path,
        environment: Mapping[str, str],
        limit_s: float,
        given: bytes = b"",
        passed: Sequence[int] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a module to its end, with ``given`` as its standard input."""
        with ExitStack() as open_files:
            stdin, stdout, stderr = (
                open_files.enter_context(tempfile.TemporaryFile()) for _ in range(3)
            )
            stdin.write(given)
            stdin.seek(0)
            streams: Any = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            process = self.start(
                *words, folder=folder, environment=environment, passed=passed, **streams
            )
            try:
                code = process.wait(limit_s)
            finally:
                process.kill()
            said = [_read(file) for file in (stdout, stderr)]
        return subprocess.CompletedProcess(words, code, *said)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@cache
def server(kind: str = "programs") -> ForkServer:
    """The fork server of this process for one kind of programs; it ends with it."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("THROUGHLINE_")}
    environment |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    with its:
        process = subprocess.Popen(
            [sys.executable, "-m", "builders.forkserver", str(its.fileno()), kind],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
        )
    atexit.register(_end, mine, process)
    return ForkServer(mine)


def _end(asking: socket.socket, process: subprocess.Popen[bytes]) -> None:
    asking.close()
    process.wait(60)
