"""One way to explain a stretch of history, and how many words it needs.

Exact optimal partitioning proposes the cuts that explain a stretch best at a low price per cut:
what is proposed is verified afterwards (``pruning.py``), what is not proposed is never found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from service.analysis.detection import robust
from service.analysis.detection.evidence import NoiseOf
from service.analysis.detection.pruning import THRESHOLD, significant
from service.analysis.detection.robust import Floats

PRICE = 6.0
"""Per cut, in squared noise: half of what a test over a hundred places would ask."""
SHORTEST = 5
"""Points between cuts; a shorter stretch is an outlier or a bad day, not a level."""


def cuts(y: Floats, noise: float, shortest: int = SHORTEST) -> list[int]:
    """First points of new levels, minimising squared residuals plus ``PRICE`` per cut.

    ``best[end]`` is the largest saving over the first ``end`` points; quadratic in their number,
    which ``windows.py`` bounds. ``shortest`` neighbouring ends are found at once: none of them
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


def _walk_back(before: list[int]) -> list[int]:
    places = [before[-1]]
    while places[-1] > 0:
        places.append(before[places[-1]])
    return places[-2::-1]


WORDS_PER_CHANGE = 6.0
"""Nats to tell a change: where (log of 200 places is 5.3) and how large."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A stretch as levels plus noise, after what else explains it was taken out."""

    y: Floats
    """Cleaned: machines, modes and drift taken out, outliers pulled back."""
    noise: NoiseOf
    changes: tuple[tuple[int, float], ...]
    """First points of new levels, each with its evidence."""
    mode_distance: float = 0.0
    drift: float = 0.0
    """Per point."""

    @property
    def places(self) -> list[int]:
        """First points of new levels."""
        return [place for place, _ in self.changes]

    def drifted(self, place: float) -> float:
        """Return what the drift has added at a place: zero in the middle of the stretch."""
        return self.drift * (place - (len(self.y) - 1) / 2)


def explain(y: Floats, threshold: float = THRESHOLD, shortest: int = SHORTEST) -> Explanation:
    """Levels plus noise and nothing else."""
    cleaned, scale = robust.clipped(y)
    noise = NoiseOf(scale, robust.autocorrelation(cleaned))
    return settled(Explanation(cleaned, noise, ()), threshold, shortest)


def settled(
    base: Explanation, threshold: float = THRESHOLD, shortest: int = SHORTEST
) -> Explanation:
    """``base`` with its changes proposed and verified anew."""
    quiet = replace(base.noise, wander=1.0)
    proposed = cuts(base.y, base.noise.scale, shortest)
    changes = significant(base.y, proposed, quiet, threshold)
    places = [place for place, _ in changes]
    noise = replace(quiet, wander=robust.wander(base.y - levels(base.y, places), quiet.scale))
    if changes and noise.wander > 1.0:  # what falls in quiet noise does not stand in a restless one
        changes = significant(base.y, places, noise, threshold)
    return replace(base, noise=noise, changes=tuple(changes))


def sketch(y: Floats, threshold: float, shortest: int, grain: int) -> Explanation:
    """Levels plus noise to the nearest ``grain`` points, in a ``grain``-th of the time."""
    cleaned, scale = robust.clipped(y)
    noise = NoiseOf(scale, robust.autocorrelation(cleaned))
    whole = len(y) // grain * grain
    means = cleaned[:whole].reshape(-1, grain).mean(axis=1)
    coarse = cuts(means, scale / math.sqrt(grain), max(shortest // grain, 1))
    changes = significant(cleaned, [grain * place for place in coarse], noise, threshold)
    return Explanation(cleaned, noise, tuple(changes))


def levels(y: Floats, places: list[int]) -> Floats:
    """The mean of each level, at each of its points."""
    borders = [0, *places, len(y)]
    lengths = np.diff(borders)
    means = np.add.reduceat(y, borders[:-1]) / lengths
    return np.repeat(means, lengths)


def medians(y: Floats, places: list[int]) -> Floats:
    """The median of each level, at each of its points."""
    borders = [0, *places, len(y)]
    parts = [y[start:end] for start, end in pairwise(borders)]
    return np.concatenate([np.full(len(part), np.median(part)) for part in parts])


def words(y: Floats, explained: Explanation) -> float:
    """Nats to tell the points of ``y`` given their levels, and the levels."""
    residuals = y - levels(y, explained.places)
    limit = robust.CLIP * robust.spread(residuals) + 1e-12
    deviation = max(float(np.clip(residuals, -limit, limit).std()), robust.FLOOR)
    told_by_neighbour = 0.5 * math.log(1.0 - explained.noise.autocorrelation**2)
    return len(y) * (math.log(deviation) + told_by_neighbour) + WORDS_PER_CHANGE * len(
        explained.changes
    )
