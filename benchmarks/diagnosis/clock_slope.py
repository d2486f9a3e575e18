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


def clock_slope(groups: Sequence[tuple[Values, Values]]) -> float:
    """Return the slope of log step time on log clock, from -1 (proportional) to 0 (independent).

    It is told within groups, by the blocks that follow it best; 0 where they cannot tell it.

    Args:
        groups: log step times and log clocks of blocks that differ by their clock alone.
    """
    times = np.concatenate([time - np.median(time) for time, _ in groups])
    clocks = np.concatenate([clock - np.median(clock) for _, clock in groups])
    if len(times) < FEWEST or clocks.std() < STEADY:
        return 0.0
    off = np.abs(times - _least_squares(times, clocks) * clocks)
    near = off <= np.quantile(off, 1 - TRIMMED)
    return min(0.0, max(-1.0, _least_squares(times[near], clocks[near])))


def _least_squares(times: Values, clocks: Values) -> float:
    return float(clocks @ times) / max(float(clocks @ clocks), 1e-30)
