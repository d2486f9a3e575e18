"""Tells the supervisor, and a person at a terminal, where a measurement is."""

from __future__ import annotations

import math
import os
import sys
import threading
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks import contracts

PULSE_S = 1.0
"""A sign of life at least so often, also while a compiler keeps the main thread busy."""

PATIENCE_S = {"warmup": 240.0, "full": 60.0, "synth": 60.0, "phases": 60.0, "profile": 180.0}
"""Without a finished step for so long a phase of steps hangs: the signs of life end, and the
supervisor sees it. Building and the first step may be silent for as long as they compile; warm-up
may hold a second compilation."""


class Reporter:
    """Writes events to a file descriptor and, at a terminal, a bar to stderr."""

    def __init__(self, events_fd: int | None, title: str) -> None:
        self._fd = events_fd
        self._lock = threading.Lock()
        self._last = contracts.Progress(phase="build")
        self._told_at_s = time.monotonic()
        self._stop = threading.Event()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                refresh_per_second=4,
            )
            self._task = self._bar.add_task(title, total=1.0, note="")
        self._thread = threading.Thread(target=self._pulse, name="pulse", daemon=True)

    def __enter__(self) -> Reporter:
        if self._bar is not None:
            self._bar.start()
        self._send()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._bar is not None:
            self._bar.stop()

    def tell(
        self, phase: str, fraction: float, step: int = 0, rate: tuple[float, str] | None = None
    ) -> None:
        """Say where the measurement is; sent at once when the phase changes, else by the pulse."""
        changed = phase != self._last.phase
        self._told_at_s = time.monotonic()
        self._last = contracts.Progress(
            phase=phase,
            fraction=min(1.0, max(0.0, fraction)),
            step=step,
            throughput=rate[0] if rate else None,
            unit=rate[1] if rate else None,
        )
        if changed:
            self._send()
            if self._bar is None:
                print(f"{phase} ...", file=sys.stderr, flush=True)  # noqa: T201 - progress

    def _pulse(self) -> None:
        while not self._stop.wait(PULSE_S):
            if not self._hangs():
                self._send()

    def _hangs(self) -> bool:
        patience_s = PATIENCE_S.get(self._last.phase, math.inf)
        return time.monotonic() - self._told_at_s > patience_s

    def _send(self) -> None:
        now = self._last
        if self._bar is not None and self._task is not None:
            rate = f" {now.throughput:,.0f} {now.unit}" if now.throughput else ""
            self._bar.update(self._task, completed=now.fraction, note=f"{now.phase}{rate}")
        if self._fd is None:
            return
        line = contracts.Event(at_s=time.monotonic(), progress=now).model_dump_json() + "\n"
        with self._lock:
            try:
                os.write(self._fd, line.encode())
            except OSError:
                self._fd = None  # the supervisor is gone; the measurement need not know
