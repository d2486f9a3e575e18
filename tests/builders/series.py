"""Series and points out of a few numbers, for tests of what is pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from benchmarks.contracts import Case, Direction
from service.history import compare
from service.schemas.series import Series, SeriesPoint


def point(number: int, value: float, **more: object) -> SeriesPoint:
    """A point at revision ``r<number>`` with an interval of one per cent."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    fields: dict[str, object] = {
        "result_id": f"{number:032x}",
        "revision": f"r{number}",
        "revision_at": at,
        "measured_at": at,
        "value": value,
        "low": value * 0.99,
        "high": value * 1.01,
        "interval": "replicates",
        "replicates": 3,
        "environment": "e" * 64,
        "worker": "w",
    }
    return SeriesPoint(**(fields | more))  # type: ignore[arg-type]


def series(*points: SeriesPoint, direction: Direction = Direction.HIGHER, **more: object) -> Series:
    """A series of throughput with these points."""
    fields: dict[str, object] = {
        "id": "5" * 32,
        "case": Case(workload="resnet50", preset="full"),
        "metric": "throughput",
        "unit": "img/s",
        "direction": direction,
        "comparability": {"hw.gpu.name": "NVIDIA H200"},
        "points": points,
    }
    return Series(**(fields | more))  # type: ignore[arg-type]


def by_revision(series: Series) -> Series:
    """Keep of each revision the measurement that a comparison takes; slow and obvious."""
    measured: dict[str, list[SeriesPoint]] = {}
    for point in series.points:
        if point.counts:
            measured.setdefault(point.revision, []).append(point)
    kept = [_soundest(series, points) for points in measured.values()]
    return replace(series, points=tuple(kept))


def _soundest(series: Series, points: Sequence[SeriesPoint]) -> SeriesPoint:
    """Of measurements of one revision, so that a value and its change are about the same one."""
    name = points[0].revision
    change = (
        compare.compare(replace(series, points=tuple(points)), name, name)
        if len(points) > 1
        else None
    )
    return change.contender if change and change.contender else points[-1]
