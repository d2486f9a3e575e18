"""Processors: how many this process may use, and how scarce they are."""

from __future__ import annotations

import math
import os
from pathlib import Path

_PRESSURE = Path("/proc/pressure/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_PCI = Path("/sys/bus/pci/devices")


def usable_cpus() -> int:
    """Count the CPUs that this process may use: its affinity, cut to its control group's quota."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2 here, or its quota is "max"
        return allowed


def listed(text: str) -> set[int]:
    """Read the kernel's notation for a set of CPUs: ``0-3,8`` is 0, 1, 2, 3 and 8."""
    numbers: set[int] = set()
    for span in filter(None, text.split(",")):
        first, _, last = span.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def beside(slot: str) -> str:
    """List the CPUs of a PCI slot's NUMA node, as the kernel writes them; empty if unknown."""
    try:
        return (_PCI / slot / "local_cpulist").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def pressure_s() -> float:
    """Seconds since boot in which some task of this node waited for a CPU.

    NaN where the kernel does not count them (no pressure stall information).
    """
    try:
        first, _, _ = _PRESSURE.read_text(encoding="ascii").partition("\n")
        return int(first.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return math.nan
