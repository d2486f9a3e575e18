"""The processes of one `throughline up`: a service, and a worker for each device."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import local_service
from cli.client import ServiceClient
from cli.exits import Exit, Stop
from cli.local.processes import Child, stop, wait_for
from cli.local.state_dir import StateFolder
from cli.settings import child_environment

_START_S = 60.0
_ABORT_S = 20.0
"""Time in which a worker that was asked twice ends its child and gives the job back."""
_SERVICE_S = 10.0
_HEARTBEAT_S = "1"
"""Progress comes with heartbeats, and somebody is watching."""
_CLAIM_WAIT_S = "2"
"""An idle worker needs this long to stop; frequent requests cost nothing on loopback."""


class Ensemble:
    """Starts the processes, notices when one dies, and leaves none behind.

    With ``only`` they know these settings beside their addresses, and none of the user's.
    """

    def __init__(
        self, state: StateFolder, host: str, port: int, only: Mapping[str, str] | None = None
    ) -> None:
        self.state = state
        self.url = local_service.url(host, port)
        self._env = _environment(state, host, port, self.url, only)
        self.token_file: Path | None = None
        """Where the workers read their token, if the service asks for one."""
        self._service: Child | None = None
        self._workers: list[Child] = []

    def start_service(self) -> None:
        """Start the service; it answers some seconds later."""
        self._service = self._child("service", "service", {})

    def await_service(self, client: ServiceClient) -> None:
        """Wait until the service answers.

        Raises:
            Stop: it ended, or did not answer in time.
        """
        assert self._service is not None
        deadline = time.monotonic() + _START_S
        while not client.is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise Stop(
                    f"The service did not answer at {self.url} within {_START_S:.0f} s; "
                    f"its log is {self._service.log}.",
                    Exit.AWAY,
                )
            time.sleep(0.1)

    def start_workers(self, devices: Sequence[str]) -> None:
        """Start one worker for each device."""
        for device in devices:
            settings = {
                "THROUGHLINE_DEVICE": device,
                "THROUGHLINE_CLAIM_WAIT_S": _CLAIM_WAIT_S,
                "THROUGHLINE_TOKEN": "",  # the user's own is for other services
                "THROUGHLINE_TOKEN_FILE": str(self.token_file or ""),
            }
            name = f"worker-{device.replace(':', '-')}"
            self._workers.append(self._child(name, "worker", settings))

    def check(self) -> None:
        """Make sure that every process still runs.

        Raises:
            Stop: one has ended; the sentence carries the last lines that it wrote.
        """
        for child in self._children():
            if child.returncode is not None:
                raise Stop(_obituary(child, child.returncode), Exit.AWAY)

    def stop(self, say: Callable[[str], None], *, at_once: bool) -> None:
        """End the workers, then the service, so that a last result still reaches it.

        A worker finishes its case; after an interrupt, or with ``at_once``, it gives the case back.
        Processes that take too long are killed with their descendants.
        """
        try:
            if self._workers and not at_once:
                say("Stopping; a case that is being measured ends first (Ctrl-C: gives it back).")
                self._ask_workers()
                wait_for(self._workers, math.inf)
        except KeyboardInterrupt:
            at_once = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the rest is over in seconds
        if at_once:
            self._ask_workers()
        stop(self._workers, _ABORT_S)
        stop(self._started_service(), _SERVICE_S)

    def _ask_workers(self) -> None:
        for worker in self._workers:
            worker.ask_to_stop()

    def _children(self) -> list[Child]:
        return [*self._started_service(), *self._workers]

    def _started_service(self) -> list[Child]:
        return [] if self._service is None else [self._service]

    def _child(self, name: str, module: str, more: Mapping[str, str]) -> Child:
        return Child(
            name,
            [sys.executable, "-m", module],
            self.state.logs / f"{name}.log",
            {**self._env, **more},
        )


def _environment(
    state: StateFolder, host: str, port: int, url: str, only: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the environment of every process; it keeps a database that the user named."""
    return child_environment(
        {
            **(only or {}),
            "THROUGHLINE_HEARTBEAT_S": _HEARTBEAT_S,
            "THROUGHLINE_ROLE": "all",
            "THROUGHLINE_STATE_DIR": str(state.path.absolute()),
            "THROUGHLINE_HOST": host,
            "THROUGHLINE_PORT": str(port),
            "THROUGHLINE_URL": url,
        },
        alone=only is not None,
    )


def _obituary(child: Child, returncode: int) -> str:
    how = f"was killed by signal {-returncode}" if returncode < 0 else f"ended with {returncode}"
    lines = "".join(f"\n  {line}" for line in child.last_lines())
    return f"The {child.name} {how}; the last lines of {child.log}:{lines or ' (none)'}"
