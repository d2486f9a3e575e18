"""Tells the supervisor, or a person, where a measurement is."""

from __future__ import annotations

import os
import threading
import time

from benchmarks import contracts
from benchmarks.measure import hang
from benchmarks.progress_bar import ProgressBar

PULSE_S = 1.0
"""Longest time between two signs of life, also while a compiler keeps the main thread busy."""

PATIENCE_S = {
    "warmup": 240.0,
    "full": 60.0,
    "synth": 60.0,
    "turns": 120.0,
    "phases": 60.0,
    "profile": 180.0,
    "trace": 180.0,
}
"""Longest time of a phase without a finished step. Then the signs of life end, and the supervisor
sees that it hangs. Building and the first step have no limit, for they may compile; warm-up may
hold a second compilation. Neither has a wait for the other side of a pair, which may compile."""


class Reporter:
    """Writes events to a file descriptor, or without one shows them to a person."""

    def __init__(
        self, events_fd: int | None, title: str, place: contracts.GangRank | None = None
    ) -> None:
        """A rank's has its ``place``."""
        self._fd = events_fd
        self._place = place
        self._position = 0
        self._lock = threading.Lock()
        self._last = contracts.Progress(phase="build")
        self._heard_at_s = time.monotonic()
        self._stop = threading.Event()
        self._bar = ProgressBar(title) if events_fd is None else None
        self._thread = threading.Thread(target=self._pulse, name="pulse", daemon=True)

    def __enter__(self) -> Reporter:
        if self._bar is not None:
            self._bar.__enter__()
        self._send()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._bar is not None:
            self._bar.__exit__()

    def tell(
        self, phase: str, fraction: float, step: int = 0, rate: tuple[float, str] | None = None
    ) -> None:
        """Say where the measurement is; sent at once when the phase changes, else by the pulse."""
        changed = phase != self._last.phase
        self._heard_at_s = time.monotonic()
        self._last = contracts.Progress(
            phase=phase,
            fraction=min(1.0, max(0.0, fraction)),
            step=step,
            throughput=rate[0] if rate else None,
            unit=rate[1] if rate else None,
        )
        if changed:
            self._send()

    def passed(self) -> None:
        """Count a place that all ranks pass."""
        self._position += 1

    def _pulse(self) -> None:
        while not self._stop.wait(PULSE_S):
            if self._place is not None:
                hang.answer_if_asked(self._place.rendezvous, self._place.rank)
            if not self._hangs():
                self._send()

    def _hangs(self) -> bool:
        patience_s = PATIENCE_S.get(self._last.phase)
        if patience_s is None:
            return False
        if self._place is not None and self._place.patience_s is not None:
            patience_s = self._place.patience_s
        return time.monotonic() - self._heard_at_s > patience_s

    def _send(self) -> None:
        now = self._last
        with self._lock:
            if self._bar is not None:
                self._bar.show(now)
            if self._fd is None:
                return
            event = contracts.Event(at_s=time.monotonic(), progress=now)
            if self._place is not None:
                event = contracts.RankEvent(**dict(event), position=self._position)
            try:
                os.write(self._fd, event.model_dump_json().encode() + b"\n")
            except OSError:
                self._fd = None  # the supervisor is gone; the measurement need not know
