"""Limits on requests: a bucket for each name, which fills evenly up to a burst.

Each replica counts for itself, in memory: a limit is there to keep one client from taking the
service from the others, not to count to the last request.
"""

from __future__ import annotations

from collections import OrderedDict

_NAMES = 20_000
"""Buckets that are kept; the one that was not used for longest goes first."""


class Buckets:
    """``per_s`` requests a second for each name, and ``burst`` at once; no limit if it is 0."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = max(burst, 1.0)  # less would let nobody in at all
        self._filled: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: str, now_s: float) -> float:
        """Return the time in s until ``name`` may ask; 0 if it may now. Counts nothing."""
        if self._per_s <= 0:
            return 0.0
        return max(0.0, (1.0 - self._level(name, now_s)) / self._per_s)

    def take(self, name: str, now_s: float) -> None:
        """Count one request; a bucket never owes more than one second."""
        if self._per_s <= 0:
            return
        left = max(self._level(name, now_s) - 1.0, -self._per_s)
        self._filled[name] = (left, now_s)
        self._filled.move_to_end(name)
        if len(self._filled) > _NAMES:
            self._filled.popitem(last=False)

    def _level(self, name: str, now_s: float) -> float:
        left, then_s = self._filled.get(name, (self._burst, now_s))
        return min(self._burst, left + (now_s - then_s) * self._per_s)
