"""The internal record as a row: the columns that CSV, Parquet and JSON lines share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import Metric, Run
from cli.formats.source import Source
from cli.formats.text import short
from service.schemas.measured_elsewhere import ForeignPoint

TEXTS: Final = ("benchmark", "metric", "unit", "direction", "revision")
TIMES: Final = ("at", "committed_at")
NUMBERS: Final = ("value", "low", "high")
FACTS: Final = ("parameters", "machine")
VALUES: Final = "values"
COLUMNS: Final = (
    *("benchmark", "parameters", "metric", "unit", VALUES, "low", "high"),
    *("revision", "at", "committed_at", "machine", "direction"),
)
"""The order in which they are written. The last one is never empty and no part of it is one, so
that a row that was cut off shows. ``value`` is read too, in place of ``values``."""
_KNOWN: Final = frozenset({*COLUMNS, "value"})


def refuse_unknown(names: Iterable[str], origin: Node) -> None:
    """Refuse a name that is no column, and a table without the three that it needs."""
    given = set(names)
    if unknown := sorted(given - _KNOWN):
        raise origin.refuse(f"{unknown[0]!r} is no column; those are {', '.join(COLUMNS)}.")
    if not has_needed(given):
        raise origin.refuse("needs the columns benchmark, metric and values.")


def has_needed(names: Iterable[str]) -> bool:
    """True where the columns are there without which a row is no point."""
    given = set(names)
    return {"benchmark", "metric"} <= given and bool(given & {VALUES, "value"})


def point_of(source: Source, row: Node) -> ForeignPoint:
    """The point of a row: an object of columns, in which null and missing are the same."""
    run = Run(
        source,
        revision=row.text_of("revision"),
        at=row.moment_of("at"),
        committed_at=row.moment_of("committed_at"),
        machine=row.below("machine").facts(),
    )
    direction = row.get("direction")
    metric = Metric(
        row["metric"].text(),
        row.text_of("unit") or "",
        _direction(direction) if direction else None,
    )
    low, high = row.get("low"), row.get("high")
    values = row.get(VALUES)
    return run.point(
        row,
        row["benchmark"].text(),
        metric,
        values.numbers() if values else [row["value"].number()],
        row.below("parameters").facts(),
        (low.number() if low else None, high.number() if high else None),
    )


def _direction(node: Node) -> Direction:
    try:
        return Direction(node.text())
    except ValueError:
        raise node.refuse("must be higher or lower: the better one.") from None


def facts_of(row: Node, text: str) -> dict[str, object]:
    """The JSON object that a cell of ``parameters`` or ``machine`` holds."""
    facts = _object(text)
    if facts is None:
        raise row.refuse(f"{short(text)!r} is no JSON object.")
    return facts


@lru_cache(maxsize=64)
def _object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
