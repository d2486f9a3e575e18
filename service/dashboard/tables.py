"""Tables that leave the page or need an order of their own. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from service.schemas.series import ChangeVerdict, RevisionChange, Series

_CSV_COLUMNS = (
    "revision",
    "revision_at",
    "measured_at",
    "value",
    "low",
    "high",
    "interval",
    "replicates",
    "worker",
    "environment",
    "result_id",
)
_ORDER = {
    ChangeVerdict.SLOWER: 0,
    ChangeVerdict.FASTER: 1,
    ChangeVerdict.UNCLEAR: 2,
    ChangeVerdict.MISSING: 3,
}


def csv_of(series: Series) -> str:
    """Write a series' points as CSV, oldest first, values in the series' base unit."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow((*_CSV_COLUMNS, "metric", "unit", "excluded", "disturbed"))
    for point in series.points:
        cells = [getattr(point, column) for column in _CSV_COLUMNS]
        cells[1:3] = [point.revision_at.isoformat(), point.measured_at.isoformat()]
        excluded = str(point.excluded).lower()
        writer.writerow(
            (*cells, series.metric, _no_formula(series.unit), excluded, point.disturbed)
        )
    return out.getvalue()


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def worst_first(changes: Sequence[RevisionChange]) -> list[RevisionChange]:
    """Put what got slower first, the largest loss on top, and what is missing last."""
    return sorted(
        changes,
        key=lambda one: (_ORDER[one.verdict], -abs(one.change or 0.0), one.case.key),
    )
