"""Labelled histories: JSON lines with suite, id, direction, values, change_points, ignore."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from trials.detection.synthetic import Planted

FOLDS = 5


def read(path: Path) -> list[Planted]:
    """The histories of a file, in its order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_series(json.loads(text)) for text in lines]


def _series(line: dict[str, object]) -> Planted:
    fields = dict(line)
    fields["values"] = tuple(fields["values"])  # type: ignore[arg-type]
    fields["change_points"] = tuple(fields["change_points"])  # type: ignore[arg-type]
    fields["ignore"] = tuple((start, end) for start, end in fields["ignore"])  # type: ignore[attr-defined]
    return Planted(**fields)  # type: ignore[arg-type]


def family(series: Planted) -> str:
    """What near-identical series share, so that a fold holds all of them or none.

    ``benchmark@place``: phases of one model at one place move together (a rate is the inverse of
    its time), and so does one benchmark on two devices. A benchmark with a space in its name has
    its program first; others are phases, whose model is the place.
    """
    benchmark, _, place = series.id.partition("@")
    words = benchmark.split(" ")
    if len(words) > 1:
        return " ".join(words[:2])
    return benchmark if "/" in benchmark else place


def fold(series: Planted) -> int:
    """The part that the series belongs to; the same on every machine."""
    return zlib.crc32(family(series).encode()) % FOLDS
