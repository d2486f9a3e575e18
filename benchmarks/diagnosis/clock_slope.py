"""Estimates how step time follows the device's clock, from blocks of steps. Pure.

A GPU at its power limit changes its clock from second to second. Kernels that wait for memory take
no longer at a lower clock, others do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.diagnosis.paired import TRIMMED

Values = npt.NDArray[np.float64]
FEWEST = 10
"""Blocks from which a slope may be told."""
STEADY = 5e-4
"""Standard deviation of log clocks below which the clock explains nothing."""


def clock_slope(groups: Sequence[tuple[Values, Values]], sure: float = 0.0) -> float:
    """Return the slope of log step time on log clock, from -1 (proportional) to 0 (independent).

    It is told within groups, by the blocks that follow it best; 0 where they cannot tell it.

    Args:
        groups: log step times and log clocks of blocks that differ by their clock alone.
        sure: standard errors by which it must differ from 0.
    """
    times = np.concatenate([time - np.median(time) for time, _ in groups])
    clocks = np.concatenate([clock - np.median(clock) for _, clock in groups])
    if len(times) < FEWEST or clocks.std() < STEADY:
        return 0.0
    off = np.abs(times - _least_squares(times, clocks) * clocks)
    near = off <= np.quantile(off, 1 - TRIMMED)
    times, clocks = times[near], clocks[near]
    slope = _least_squares(times, clocks)
    freedom = len(times) - len(groups) - 1
    error = float(np.linalg.norm(times - slope * clocks) / np.linalg.norm(clocks))
    if sure and (freedom < 1 or abs(slope) < sure * error / freedom**0.5):
        return 0.0
    return min(0.0, max(-1.0, slope))


def _least_squares(times: Values, clocks: Values) -> float:
    return float(clocks @ times) / max(float(clocks @ clocks), 1e-30)
