"""A series as findings look at it, made of a few values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.contracts import Case, Direction
from service.analysis.detection.change import Noise
from service.history.series_history import (
    RecentPoint,
    RecentPoints,
    SeriesAnalysis,
    SeriesHistory,
)
from service.schemas.series import SeriesName

FIRST_AT = datetime(2026, 3, 1, tzinfo=UTC)
CASE = Case(workload="unet", preset="full")
NOISE = 0.002


def placed_at(revision: int) -> datetime:
    return FIRST_AT + timedelta(days=revision)


def watched(
    logs: Sequence[float], seed: int = 0, case: Case = CASE, workers: Sequence[str] = ("c",)
) -> SeriesHistory:
    """Throughput at one revision after the other on each worker: ln over 100, without noise.

    No change of it is known.
    """
    noise = np.random.default_rng(seed).normal(0.0, NOISE, (len(logs), len(workers)))
    values = 100.0 * np.exp(np.array(logs)[:, None] + noise)
    points = tuple(
        RecentPoint(f"{at}{name}", f"r{at:03d}", placed_at(at), float(value), name, placed_at(at))
        for at, row in enumerate(values)
        for name, value in zip(workers, row, strict=True)
    )
    name = SeriesName("s", case, "throughput", "img/s", Direction.HIGHER, {})
    known = Noise(NOISE, autocorrelation=0.0, minimum_detectable_effect=0.01)
    analysis = SeriesAnalysis("s", len(points), (), known, (), None)
    tail = RecentPoints("s", Direction.HIGHER, 0, points)
    return SeriesHistory(name, analysis, tail, tuple(point.value for point in points))
