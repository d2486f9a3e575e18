"""What is told of many durations."""

from __future__ import annotations

from collections.abc import Sequence


def spread(took_s: Sequence[float]) -> dict[str, float]:
    """Median, two high percentiles (nearest rank) and the largest, in s; empty of nothing."""
    ordered = sorted(took_s)
    if not ordered:
        return {}
    percentiles = {
        f"p{p}_s": ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (50, 90, 99)
    }
    return percentiles | {"max_s": ordered[-1]}
