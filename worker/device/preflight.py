"""Is the device idle and nobody else's? Asked before each replicate; a no becomes a flag."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.contracts import Result
from benchmarks.diagnosis.disturbances import DEVICE_BUSY, FOREIGN_MEMORY
from worker.device.nvml import Gauge

IDLE = 0.05
"""Utilisation up to which a device is idle."""
FOREIGN_B = 300 * 2**20
"""Memory in use before our child has any, beyond which somebody else is there. In a container the
driver does not name the processes of others, but their memory shows."""
LOOK_S = 0.1


def await_idle(gauge: Gauge | None, limit_s: float, goes_on: Callable[[], bool]) -> tuple[str, ...]:
    """Wait for an idle device while ``goes_on()``, ``limit_s`` at most; the flags of what remains.

    The load of our own last child fades within a second, because the driver tells an average.
    """
    if gauge is None:
        return ()
    give_up_at_s = time.monotonic() + limit_s
    while (left := obstacles(gauge.channels())) and goes_on():
        if time.monotonic() >= give_up_at_s:
            return left
        time.sleep(LOOK_S)
    return left


def obstacles(channels: Mapping[str, float]) -> tuple[str, ...]:
    """Flags for what makes a device unfit to be measured on. Pure."""
    found = []
    if channels.get("utilization", 0.0) > IDLE:
        found.append(DEVICE_BUSY)
    if channels.get("memory_used_b", 0.0) > FOREIGN_B:
        found.append(FOREIGN_MEMORY)
    return tuple(found)


def flagged(result: Result, flags: Sequence[str]) -> Result:
    """``result`` with ``flags`` on what it measured, or on itself where it measured nothing."""
    if not result.replicates:
        return result.model_copy(update={"flags": tuple(dict.fromkeys((*result.flags, *flags)))})
    replicates = tuple(
        one.model_copy(update={"flags": tuple(dict.fromkeys((*one.flags, *flags)))})
        for one in result.replicates
    )
    return result.model_copy(update={"replicates": replicates}) if flags else result
