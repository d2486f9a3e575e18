"""Each machine's own offset, so that a mixture of machines is judged as one."""

from __future__ import annotations

import numpy as np

from service.analysis.detection.history import Floats, Ints
from service.analysis.detection.robust import running_median, spread

LEAST_POINTS = 4
"""A median of fewer points says more about them than about their machine."""
ROUNDS, SETTLED = 12, 0.02
"""Offsets pull the running median, which must be taken again until it moves by no more than this
share of the spread; far machines need a dozen rounds."""


def offsets(y: Floats, groups: Ints, count: int) -> Floats:
    """The offset of each of ``count`` groups from what was measured around its points.

    A machine that took over from another at one point in time has no neighbours to differ from:
    its offset stays zero, and the change is seen as the change that it is.
    """
    found = np.zeros(count)
    members = [np.flatnonzero(groups == group) for group in range(count)]
    members = [points if len(points) >= LEAST_POINTS else points[:0] for points in members]
    if sum(len(points) > 0 for points in members) < 2:
        return found
    for _ in range(ROUNDS):
        level = y - found[groups]
        residuals = level - running_median(level)
        moves = [float(np.median(residuals[points])) if len(points) else 0.0 for points in members]
        found += moves
        if max(map(abs, moves)) <= SETTLED * spread(residuals):
            break
    return found
