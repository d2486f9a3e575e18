"""Times the parts of a process's start, up to its first timed step."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from benchmarks.measure.timestamps import drain


class Startup:
    """Seconds of each part of a process's start, in their order."""

    def __init__(self, import_s: float = 0.0, waited_s: float | None = None) -> None:
        """Begin now; ``import_s`` is how long torch and the rest took to load before this.

        For a process that was started ahead, ``waited_s`` says how long its job had to wait for it.
        """
        self._at_s = time.perf_counter()
        self.import_s = import_s
        if waited_s is None:
            self.parts = {"interpreter": max(0.0, _age_s() - import_s), "import": import_s}
        else:
            self.parts = {"started_ahead": waited_s}

    def open_device(self, device: torch.device) -> None:
        """Make the context of ``device``, which the first tensor there would do otherwise."""
        torch.zeros(1, device=device)
        drain(device)
        self.done("device")

    def done(self, part: str) -> None:
        """Say that ``part`` took the time since the last one."""
        before_s, self._at_s = self._at_s, time.perf_counter()
        self.parts[part] = self._at_s - before_s


def _age_s() -> float:
    """Seconds since the kernel started this process; 0 where it does not tell."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
