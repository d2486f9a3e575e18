"""Exact optimal partitioning: the cuts that explain a stretch best at a price per cut.

The price is low on purpose. What is proposed here is verified afterwards (``merging.py``); what is
not proposed is never found.
"""

from __future__ import annotations

import numpy as np

from service.analysis.detection.history import Floats

PRICE = 6.0
"""Per cut, in squared noise: half of what a test over a hundred places would ask."""
SHORTEST = 5
"""Points between cuts; a shorter stretch is an outlier or a bad day, not a level."""


def cuts(y: Floats, noise: float, shortest: int = SHORTEST) -> list[int]:
    """First points of new levels, minimising squared residuals plus ``PRICE`` per cut.

    ``best[end]`` is the largest saving over the first ``end`` points; quadratic in their number,
    which ``judgement.py`` bounds. ``shortest`` neighbouring ends are found at once: none of them
    can follow another.
    """
    count = len(y)
    if count < 2 * shortest:
        return []
    sums = np.concatenate(([0.0], np.cumsum(y - y.mean())))
    places = np.arange(count + 1.0)
    best = np.full(count + 1, -np.inf)
    best[0] = 0.0
    before = np.zeros(count + 1, dtype=np.int64)
    too_short = np.triu(np.full((shortest, shortest), -np.inf), 1)
    for first in range(shortest, count + 1, shortest):
        ends = slice(first, first + shortest)
        gain = sums[ends, None] - sums[:first]
        gain *= gain
        gain /= places[ends, None] - places[:first]
        gain += best[:first]
        gain[:, -shortest:] += too_short[: len(gain)]
        before[ends] = gain.argmax(axis=1)
        best[ends] = gain.max(axis=1) - PRICE * noise * noise
    return _walk_back(before.tolist())


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
