"""One replica of the service as a process that is killed and started again on the same port."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import httpx2
from builders.commands import free_port

ROOT = Path(__file__).parents[2]


def environment(**settings: str) -> dict[str, str]:
    """This process's environment without anybody's settings, and with the tests on the path."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("THROUGHLINE_")}
    return kept | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"} | settings


class Replica:
    """A service process that asks for no tokens, unless ``settings`` say otherwise.

    `kill` and `start` may be repeated.
    """

    def __init__(self, url: str, folder: Path, **settings: str) -> None:
        self.port = free_port()
        self._folder = folder
        self._clock = folder / f"clock-{self.port}"
        self.set_clock(0.0)
        settings = {"ACCESS": "open"} | settings
        settings = {f"THROUGHLINE_{name}": value for name, value in settings.items()}
        self._environment = environment(
            THROUGHLINE_DATABASE_URL=url, CHAOS_CLOCK=str(self._clock), **settings
        )
        self.process: subprocess.Popen[bytes] | None = None

    def add(self, *groups: dict[str, str], **more: str) -> None:
        """Let its environment have these too."""
        for variables in (*groups, more):
            self._environment |= variables

    def start(self) -> None:
        """Start it; it answers some time later."""
        command = [sys.executable, "-m", "trials.chaos.service_process", "--port", str(self.port)]
        with (self._folder / f"service-{self.port}.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=self._environment, stderr=log)

    def wait(self, limit_s: float = 60.0) -> None:
        """Return when it answers."""
        until_s = time.monotonic() + limit_s
        while True:
            try:
                if httpx2.get(f"http://127.0.0.1:{self.port}/api/v1/health").status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            assert time.monotonic() < until_s, f"the service does not answer: {self.log()}"
            time.sleep(0.05)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal; SIGKILL returns when the process is gone."""
        if self.process is None:
            return
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def set_clock(self, off_by_s: float) -> None:
        """Set its idea of the database's clock, in place: a running one has the file mapped."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(struct.pack("d", off_by_s))

    def log(self) -> str:
        """The end of what it said."""
        path = self._folder / f"service-{self.port}.log"
        return path.read_text(errors="replace")[-3_000:] if path.exists() else ""
