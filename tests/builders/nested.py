"""Points of a series that vary by process, night and node as much as one says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from service.analysis.variance import MeasuredPoint

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def measured(
    logs: Sequence[float], node: str = "n0", night: int = 0, level: int = 0
) -> MeasuredPoint:
    """Make the point of the processes whose values have these logarithms."""
    values = np.exp(logs)
    between = float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 else None
    at = BEGAN + timedelta(days=night)
    return MeasuredPoint(float(np.mean(values)), len(values), between, None, node, at, level)


def points(
    random: np.random.Generator,
    deviations: tuple[float, float, float],
    sizes: tuple[int, int, int],
) -> tuple[list[MeasuredPoint], float]:
    """Draw a series, and the logarithm of what the next night on another node shows.

    Args:
        random: to draw from.
        deviations: of process, night and node.
        sizes: processes of a night, nights of a node, nodes.
    """
    process, night, node = deviations
    processes, nights, nodes = sizes
    offsets = random.normal(0, node, nodes + 1)

    def drawn(offset: float) -> list[float]:
        shared = offset + random.normal(0, night)
        return [shared + own for own in random.normal(0, process, processes)]

    series = [
        measured(drawn(offsets[at % nodes]), f"n{at % nodes}", at // nodes)
        for at in range(nodes * nights)
    ]
    return series, math.log(measured(drawn(offsets[-1])).value)
