"""Instants on the device's own clock, or on the host's where there is no device.

Both kinds of mark answer the same four calls, so one loop times a GPU and a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch


class Mark(Protocol):
    """One instant in the stream of work."""

    def record(self) -> None:
        """Mark the instant when all work queued so far is done."""

    def synchronize(self) -> None:
        """Wait until that instant has passed."""

    def query(self) -> bool:
        """Say whether it has passed."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this mark to ``end``."""


class HostMark:
    """A mark for a device that works while the host waits: a CPU."""

    def __init__(self) -> None:
        self._at_ns = 0

    def record(self) -> None:
        """Read the monotonic clock."""
        self._at_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Return: work on a CPU is done when its call returns."""

    def query(self) -> bool:
        """Say True, for the same reason."""
        return True

    def elapsed_time(self, end: HostMark) -> float:
        """Milliseconds from this mark to ``end``."""
        return (end._at_ns - self._at_ns) / 1e6


def maker(device: torch.device) -> Callable[[], Mark]:
    """Return the function that makes marks for ``device``."""
    return partial(torch.cuda.Event, enable_timing=True) if device.type == "cuda" else HostMark


def drain(device: torch.device) -> None:
    """Wait until ``device`` has finished everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
