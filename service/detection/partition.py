"""Exact optimal partitioning: the cuts that explain a stretch best at a price per cut.

The price is low on purpose. What is proposed here is verified afterwards (``merging.py``); what is
not proposed is never found.
"""

from __future__ import annotations

import numpy as np

from service.detection.history import Floats

PRICE = 6.0
"""Per cut, in squared noise: half of what a test over a hundred places would ask."""
SHORTEST = 5
"""Points between cuts; a shorter stretch is an outlier or a bad day, not a level."""


def cuts(y: Floats, noise: float, shortest: int = SHORTEST) -> list[int]:
    """First points of new levels, minimising squared residuals plus ``PRICE`` per cut.

    ``best[end]`` is the largest saving over the first ``end`` points; quadratic in their number,
    which ``judgement.py`` bounds.
    """
    count = len(y)
    if count < 2 * shortest:
        return []
    sums = np.concatenate(([0.0], np.cumsum(y - y.mean())))
    best = np.full(count + 1, -np.inf)
    best[0] = 0.0
    before = [0] * (count + 1)
    price = PRICE * noise * noise
    inverse = 1.0 / np.arange(count, 0, -1)  # of the length from each start to the end
    for end in range(shortest, count + 1):
        starts = end - shortest + 1
        gain = sums[end] - sums[:starts]
        gain *= gain
        gain *= inverse[count - end : count - end + starts]
        gain += best[:starts]
        start = int(gain.argmax())
        best[end] = gain[start] - price
        before[end] = start
    return _walk_back(before)


def slow_cuts(y: Floats, noise: float, shortest: int = SHORTEST) -> list[int]:
    """The same by definition, cubic: what ``cuts`` is tested against."""
    count = len(y)
    if count < 2 * shortest:
        return []
    lowest = [0.0] + [float("inf")] * count
    before = [0] * (count + 1)
    for end in range(shortest, count + 1):
        for start in range(end - shortest + 1):
            part = y[start:end]
            cost = float(np.sum((part - part.mean()) ** 2)) + PRICE * noise * noise
            if lowest[start] + cost < lowest[end]:
                lowest[end] = lowest[start] + cost
                before[end] = start
    return _walk_back(before)


def _walk_back(before: list[int]) -> list[int]:
    found = [before[-1]]
    while found[-1] > 0:
        found.append(before[found[-1]])
    return found[-2::-1]
