"""A slow slope over the whole stretch, told from steps because it needs fewer of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from service.analysis.detection.history import Floats
from service.analysis.detection.segment_model import Explanation, levels, settled

LEAST_POINTS = 60
PRICE = 12.0
"""Squared noise per change or slope when explanations are compared: twice the nats of a change."""
TILTED = 3.0
"""Standard errors of the slope between changes below which nothing drifts, and time is saved."""
UNSETTLED = 12
"""Newest points without which a slope must show as well: a fresh step that is no level of its own
yet looks like the far end of one, and would move every older effect. 8 to 20 serve alike."""
ROUNDS = 2
"""First a line through everything, then a line through what its changes leave."""


def with_drift(plain: Explanation, threshold: float) -> Explanation | None:
    """``plain`` explained with a slope; None if steps alone are as good. Steps are needed first."""
    if len(plain.y) < LEAST_POINTS or not plain.changes or not _tilts(plain):
        return None
    positions = np.arange(len(plain.y)) - (len(plain.y) - 1) / 2
    sloped = replace(plain, changes=())
    for _ in range(ROUNDS):
        slope = common_slope(plain.y, sloped.places)
        sloped = settled(replace(plain, y=plain.y - slope * positions), threshold)
    with_slope = _squares(sloped)
    without = _squares(plain)
    variance = min(with_slope, without) / len(plain.y)
    saved = without - with_slope + PRICE * variance * (len(plain.changes) - len(sloped.changes) - 1)
    return replace(sloped, drift=slope) if saved > 0 else None


def common_slope(y: Floats, places: list[int]) -> float:
    """The one slope, per point, that fits all levels best."""
    positions = np.arange(len(y), dtype=np.float64)
    centred = positions - levels(positions, places)
    power = float(centred @ centred)
    return float(centred @ y) / power if power else 0.0


def _tilts(plain: Explanation) -> bool:
    whole, settled_part = (_tilt(plain, len(plain.y) - less) for less in (0, UNSETTLED))
    return min(whole, settled_part) > TILTED or max(whole, settled_part) < -TILTED


def _tilt(plain: Explanation, count: int) -> float:
    y, places = plain.y[:count], [place for place in plain.places if place < count]
    positions = np.arange(count, dtype=np.float64)
    centred = positions - levels(positions, places)
    error = plain.noise.scale / np.sqrt(max(float(centred @ centred), 1.0))
    return common_slope(y, places) / float(error)


def _squares(explained: Explanation) -> float:
    residuals = explained.y - levels(explained.y, explained.places)
    return float(residuals @ residuals)
