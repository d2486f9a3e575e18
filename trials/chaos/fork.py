"""The crew as the storm sees it: forks workers, knows which live, and sends them signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Self

import orjson

from trials.chaos.replica import environment

KILLED_S = 10.0
"""Longest wait for the end of a killed worker."""


class Crew:
    """Forks workers, and knows which live."""

    def __init__(
        self,
        folder: Path,
        url: str,
        kinds: dict[str, str],
        job_s: tuple[float, float],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``kinds``: what each worker is, by name; ``job_s``: shortest and longest measurement.

        ``more`` is of the crew's environment.
        """
        self._folder = folder
        self._kinds = kinds
        variables = environment(CHAOS_JOB_S=str(list(job_s)), **more)
        with (folder / "crew.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trials.chaos.crew", str(folder), url],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.pids: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def start(self, name: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name} {self._kinds[name]}\n")
        self._process.stdin.flush()
        self.pids[name] = int(self._process.stdout.readline())

    def send(self, name: str, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pids[name], number)

    def kill(self, name: str) -> None:
        """Kill a worker, and wait for its end: a new one of its name needs its folder."""
        self.send(name, signal.SIGKILL)
        _await_end(self.pids[name], time.monotonic() + KILLED_S)

    def holds(self, name: str) -> bool:
        """Whether a worker has written down that it has a job."""
        try:
            claim = orjson.loads((self._folder / "workers" / name / "claim.json").read_bytes())
        except (OSError, ValueError):
            return False
        return bool(claim["job_id"])

    def stop(self, limit_s: float) -> None:
        """Let every worker drain."""
        for name in self.pids:
            self.send(name, signal.SIGTERM)
        until_s = time.monotonic() + limit_s
        for pid in self.pids.values():
            _await_end(pid, until_s)


def _await_end(pid: int, until_s: float) -> None:
    while time.monotonic() < until_s and Path(f"/proc/{pid}").exists():
        time.sleep(0.02)
