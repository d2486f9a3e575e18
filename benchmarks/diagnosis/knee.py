"""Finds the knee of throughput over a size, such as the batch: where more brings little. Pure.

The knee is the smallest size from which on throughput is within `NEAR` of the most. Sizes beyond
the most do not count for it: throughput may fall there. While throughput still rises at the largest
size, the most is not known, and so there is no knee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NEAR = 0.05
"""Share of the most that may be missing at the knee; also the least gain of a doubling that counts
as rising."""
FEWEST = 3
"""Sizes below which there is no curve."""


@dataclass(frozen=True)
class SizePoint:
    """Throughput at one size."""

    size: float
    rate: float
    """Above zero."""
    half_width: float = 0.0
    """Half of the rate's 95 % interval, in its unit."""


@dataclass(frozen=True)
class Curve:
    """The course of throughput over sizes."""

    most: SizePoint
    knee: SizePoint | None
    """The smallest size from which on the measured rates are within `NEAR`; None: still rising."""
    at_earliest: SizePoint | None
    """The smallest size whose interval allows that it is the knee."""
    at_latest: SizePoint | None
    """The smallest size that is within `NEAR` with its whole interval."""
    falls: float
    """Share of the most that is lost at the largest size; 0 unless clearly more than `NEAR`."""

    @property
    def beyond(self) -> float:
        """Gain from the knee to the most, as a share of the knee's rate."""
        return 0.0 if self.knee is None else self.most.rate / self.knee.rate - 1


def curve(points: Sequence[SizePoint]) -> Curve | None:
    """Judge ``points`` of different sizes, in any order; None if there are fewer than `FEWEST`."""
    if len(points) < FEWEST:
        return None
    ordered = sorted(points, key=lambda point: point.size)
    most = max(ordered, key=lambda point: point.rate)
    if most is ordered[-1] and _rises(ordered[-2], most):
        return Curve(most, None, None, None, 0.0)
    up_to_most = ordered[: ordered.index(most) + 1]
    at_earliest, found, at_latest = (_first_near(up_to_most, most, side) for side in (1, 0, -1))
    last = ordered[-1]
    falls = 1 - last.rate / most.rate if _share(last, most, 1) < 1 - NEAR else 0.0
    return Curve(most, found, at_earliest, at_latest, falls)


def _first_near(up_to_most: Sequence[SizePoint], most: SizePoint, side: int) -> SizePoint:
    first = up_to_most[-1]
    for point in reversed(up_to_most[:-1]):
        if _share(point, most, side) < 1 - NEAR:
            break
        first = point
    return first


def _rises(before: SizePoint, last: SizePoint) -> bool:
    """Return True if the last step clearly gains, and more than `NEAR` for each doubling."""
    doublings = math.log2(last.size / before.size) if before.size > 0 else 1.0
    needed = (1 + NEAR) ** doublings
    return last.rate / before.rate > needed and _share(before, last, 1) < 1


def _share(point: SizePoint, of: SizePoint, side: int) -> float:
    """The ratio of two rates, or an end of its 95 % interval: 1 for the upper, -1 for the lower."""
    relative = math.hypot(point.half_width / point.rate, of.half_width / of.rate)
    return point.rate / of.rate * (1 + side * relative)
