"""Subcommands that run beside a test: a service, a worker, whatever waits."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import httpx2
from builders.forked import Forked, ForkServer

LIMIT_S = 60.0


def free_port() -> int:
    """Return a port that is free, and that the kernel lends to no outgoing connection meanwhile."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.05)


@contextmanager
def running(
    forks: ForkServer,
    folder: Path,
    environment: dict[str, str],
    *arguments: str,
    program: str = "cli",
) -> Iterator[Forked]:
    """Run a subcommand until the block ends; what it says stands in a file named for it."""
    with (folder / f"{arguments[0]}.log").open("wb") as log:
        process = forks.start(
            program, *arguments, folder=folder, environment=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(LIMIT_S)
        finally:
            process.kill()
            process.wait()


@contextmanager
def serving(forks: ForkServer, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a service on a migrated database until the block ends."""
    url = environment["THROUGHLINE_URL"]
    with running(forks, folder, environment, "serve", "--port", url.rpartition(":")[2]) as process:
        eventually(lambda: _answers(url) or process.poll() is not None)
        assert process.poll() is None, (folder / "serve.log").read_text()
        yield url


def working(
    forks: ForkServer, folder: Path, environment: dict[str, str], *more: str
) -> AbstractContextManager[Forked]:
    """Run a worker that looks for commits several times a second, until the block ends."""
    arguments = ("worker", "--device", "cpu", *more)
    return running(forks, folder, environment, *arguments, program="builders.hurried")


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/api/v1/health").status_code == 200
    except httpx2.HTTPError:
        return False
