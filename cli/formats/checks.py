"""Refuses what cannot be the points of one or more whole runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cli.formats.problem import FormatError
from cli.formats.text import short
from service.schemas.measured_elsewhere import ForeignPoint


def check(points: Iterable[ForeignPoint], path: Path | None = None) -> None:
    """Look for metrics of two units and for points that are there twice.

    Raises:
        FormatError: names the benchmark.
    """
    units: dict[tuple[str, str], str] = {}
    seen: set[object] = set()
    for point in points:
        unit = units.setdefault((point.benchmark, point.metric), point.unit)
        if unit != point.unit:
            raise FormatError(
                f"{point.metric!r} is in {unit!r} and in {point.unit!r}: one unit is needed.",
                path,
                short(point.benchmark),
            )
        key = _identity(point)
        if key in seen:
            raise FormatError(
                f"{point.metric!r} is there twice for one run: two runs need two files, "
                "or their times.",
                path,
                short(point.benchmark),
            )
        seen.add(key)


def _identity(point: ForeignPoint) -> object:
    return (
        point.benchmark,
        tuple(sorted(point.parameters.items())),
        point.metric,
        point.revision,
        point.at,
        tuple(sorted(point.machine.items())),
    )
